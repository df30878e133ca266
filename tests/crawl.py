"""Every page that somebody can reach by links, as a browser without scripts would find them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import urldefrag, urljoin, urlsplit

from django.test import Client
from lxml import html

# One of many: enough of each kind of address is as good as all of them.
OF_A_KIND: Final = 2
# Signing out would end the walk; files of the program say nothing.
LEFT_ALONE: Final = ("/accounts/logout", "/admin/logout", "/static/")


class Found(NamedTuple):
    address: str
    reply: Any
    body: bytes

    @property
    def is_page(self) -> bool:
        return bool(self.reply["Content-Type"].startswith("text/html") and self.body.strip())


def crawl(client: Client, *starts: str, of_a_kind: int = OF_A_KIND, queries: bool = True) -> Iterator[Found]:
    """Each page and download that is linked, from `starts` on; without `queries` as if no address had one."""
    waiting, known, kinds = list(starts), set(starts), dict[str, int]()

    def note(link: str) -> None:
        address = _address(link)
        if address is None:
            return
        address = address if queries else address.partition("?")[0]
        kind = _kind(address)
        if address not in known and kinds.get(kind, 0) < of_a_kind:
            known.add(address)
            kinds[kind] = kinds.get(kind, 0) + 1
            waiting.append(address)

    while waiting:
        address = waiting.pop(0)
        reply = client.get(address)
        found = Found(address, reply, b"".join(reply))
        yield found
        if reply.status_code in (301, 302):
            note(urljoin(address, reply["Location"]))
        if found.is_page:
            for _, name, link, _ in html.fromstring(found.body).iterlinks():
                if name in ("href", "src"):
                    note(urljoin(address, link))


def _address(link: str) -> str | None:
    """Path and query of a link that stays here."""
    parts = urlsplit(urldefrag(link).url)
    if parts.netloc not in ("", "testserver") or parts.scheme not in ("", "http"):
        return None
    if parts.path.startswith(LEFT_ALONE):
        return None
    return parts.path + (f"?{parts.query}" if parts.query else "")


def _kind(address: str) -> str:
    path, _, query = address.partition("?")
    path = re.sub(r"[0-9a-f]{64}|[0-9a-f-]{36}|\d+", "N", path)
    return f"{path}?{re.sub(r'=[^&]*', '=', query)}"
