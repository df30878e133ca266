"""Requests to addresses that people typed: one POST, to the public internet only, bounded in every way.

The address is resolved once, every answer is checked, and the connection goes to exactly what was checked, so a name
cannot point somewhere else a moment later. No redirect is followed. The whole takes TOTAL_SECONDS at most, however
slowly the other side talks, and no more than MOST_BYTES of its reply are read.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

CONNECT_SECONDS: Final = 5.0
SILENCE_SECONDS: Final = 10.0
TOTAL_SECONDS: Final = 15.0
MOST_BYTES: Final = 64 << 10
LONGEST_URL: Final = 500


class BadAddress(ValueError):
    """The address cannot be used. The message is a sentence for people."""


class Answer(NamedTuple):
    """`status` None: there was no answer, and `error` says why in a few words."""

    status: int | None
    milliseconds: int
    error: str

    @property
    def ok(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def parts_of(url: str) -> SplitResult:
    """The address in its parts. Raises BadAddress for what can be told without asking a name server."""
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise BadAddress(f"Must be an address of at most {LONGEST_URL} plain characters.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadAddress("This is not an address.") from error
    private = settings.WEBHOOKS_TO_PRIVATE
    if parts.scheme != "https" and not (private and parts.scheme == "http"):
        raise BadAddress("Must begin with https://.")
    if not parts.hostname or port == 0:
        raise BadAddress("This is not an address.")
    if parts.username is not None or parts.password is not None:
        raise BadAddress("Must hold no user name or password; the signature tells who sends.")
    if parts.fragment:
        raise BadAddress("Must have no part after a #.")
    if _is_literal(parts.hostname):
        _check(parts.hostname)
    if parts.hostname.rstrip(".").rpartition(".")[2] == "localhost" and not private:
        raise BadAddress("Must be an address of the public internet.")
    return parts


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _check(address: str) -> None:
    """Raises BadAddress for whatever is not a plain address of the public internet."""
    if settings.WEBHOOKS_TO_PRIVATE:
        return
    ip = ipaddress.ip_address(address.partition("%")[0])
    outside = ip.version == 6 and ip not in _GLOBAL_UNICAST
    if outside or not ip.is_global or ip.is_multicast or any(ip in network for network in _SPECIAL):
        raise BadAddress("Must be an address of the public internet.")


# Addresses that carry another one, which a gateway would unpack, lie outside of it or in one of the special ranges.
_GLOBAL_UNICAST: Final = ipaddress.ip_network("2000::/3")
# What this Python's list of addresses that are not global leaves out: protocol assignments and Teredo, 6to4 and its
# relays, documentation.
_SPECIAL: Final = [
    ipaddress.ip_network(network)
    for network in ("2001::/23", "2002::/16", "3fff::/20", "192.0.0.0/24", "192.88.99.0/24")
]


def resolve(host: str, port: int) -> str:
    """The first address of the name; every one must be public. Raises BadAddress, OSError."""
    found = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for address in found:
        _check(address)
    return found[0]


class _Pinned(http.client.HTTPConnection):
    """Speaks to `address`, whatever the name would resolve to by now."""

    def __init__(self, host: str, port: int, address: str, *, tls: bool) -> None:
        self.default_port = 443 if tls else 80
        super().__init__(host, port, timeout=SILENCE_SECONDS)
        self._address, self._tls = address, tls

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), CONNECT_SECONDS)
        self.sock.settimeout(SILENCE_SECONDS)
        if self._tls:
            self.sock = ssl.create_default_context().wrap_socket(self.sock, server_hostname=self.host)

    def cut(self) -> None:
        if self.sock is not None:
            with suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)


def post(url: str, *, headers: Mapping[str, str], body: bytes) -> Answer:
    """Send it and tell what came of it. Nothing of the reply but its status is kept. Raises nothing."""
    began = time.monotonic()

    def answer(status: int | None, error: str = "") -> Answer:
        return Answer(status, round((time.monotonic() - began) * 1000), error[:200])

    try:
        parts = parts_of(url)
        tls = parts.scheme == "https"
        port = parts.port or (443 if tls else 80)
        host = str(parts.hostname)
        connection = _Pinned(host, port, resolve(host, port), tls=tls)
    except BadAddress as refused:
        return answer(None, str(refused))
    except OSError:
        return answer(None, "Its name cannot be resolved.")
    timer = threading.Timer(TOTAL_SECONDS, connection.cut)
    timer.daemon = True
    timer.start()
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        response.read(MOST_BYTES)
    except TimeoutError:
        return answer(None, "No answer in time.")
    except ssl.SSLError as error:
        return answer(None, f"TLS failed: {error.reason or 'no secure connection'}.")
    except (OSError, http.client.HTTPException) as error:
        late = time.monotonic() - began >= TOTAL_SECONDS
        return answer(None, "No answer in time." if late else f"No connection: {_words(error)}.")
    finally:
        timer.cancel()
        connection.close()
    if 300 <= response.status < 400:
        return answer(response.status, "It redirects, and redirects are not followed.")
    return answer(response.status)


def _words(error: Exception) -> str:
    return (getattr(error, "strerror", None) or type(error).__name__).lower()
