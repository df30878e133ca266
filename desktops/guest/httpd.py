"""A small HTTP/1.1 server on a unix socket and, for programs inside the desktop, on a port of 127.0.0.1."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qsl, urlsplit

BODY_LIMIT = 1 << 30


class Refused(Exception):
    """What was asked for cannot be done; `status` is the HTTP status that says so."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: Mapping[str, str]
    headers: Message
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; an empty body is an empty object."""
        try:
            document = json.loads(self.body or b"{}")
        except ValueError as error:
            raise Refused(f"the body is not JSON: {error}", 400) from error
        if not isinstance(document, dict):
            raise Refused("the body is not a JSON object", 400)
        return document


@dataclass(frozen=True)
class Reply:
    body: bytes
    content_type: str = "application/octet-stream"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def json_reply(document: Any, status: int = 200) -> Reply:
    return Reply(json.dumps(document).encode(), "application/json", status)


def text_reply(text: str, status: int = 200) -> Reply:
    return Reply(text.encode(), "text/html; charset=utf-8", status)


Handler = Callable[[Request], Reply]
Routes = Mapping[tuple[str, str], Handler]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body leave in one write

    def setup(self) -> None:
        super().setup()
        if self.connection.family == socket.AF_INET:
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)

    def _answer(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        server.heard()
        length = int(self.headers.get("Content-Length") or 0)
        if length > BODY_LIMIT:
            self.close_connection = True
            self._send(json_reply({"error": "the body is too large"}, 413))
            return
        address = urlsplit(self.path)
        request = Request(
            self.command,
            address.path,
            dict(parse_qsl(address.query, keep_blank_values=True)),
            self.headers,
            self.rfile.read(length),
        )
        self._send(answer(server.routes, request))
        server.heard()

    def _send(self, reply: Reply) -> None:
        self.send_response_only(reply.status)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)
        self.wfile.flush()

    do_GET = do_POST = do_PUT = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the desktop's log is for what breaks."""


def answer(routes: Routes, request: Request) -> Reply:
    """Find the handler and turn what it raises into a status and a sentence."""
    handler = routes.get((request.method, request.path))
    if handler is None:
        return json_reply({"error": f"no such call: {request.method} {request.path}"}, 400)
    try:
        return handler(request)
    except Refused as refused:
        return json_reply({"error": str(refused)}, refused.status)
    except FileNotFoundError as error:
        return json_reply({"error": f"no such file: {error.filename}"}, 404)
    except (IsADirectoryError, NotADirectoryError, PermissionError, FileExistsError) as error:
        return json_reply({"error": f"{error.strerror}: {error.filename}"}, 422)
    except (KeyError, TypeError, ValueError) as error:
        return json_reply({"error": f"{type(error).__name__}: {error}"}, 422)
    except Exception as error:  # noqa: BLE001  (the outermost door: the caller is told, the log has the rest)
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
        return json_reply({"error": f"{type(error).__name__}: {error}"}, 500)


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    request_queue_size = 64
    allow_reuse_address = True

    def __init__(self, address: Any, family: int, routes: Routes, heard: Callable[[], None]) -> None:
        self.address_family = family
        self.routes = routes
        self.heard = heard
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, _ = super().get_request()
        return connection, ("", 0)  # a unix peer has no address, and the handler wants one

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if not isinstance(error, (ConnectionError, TimeoutError)):  # a peer that hangs up is no fault of ours
            traceback.print_exc(file=sys.stderr)
            sys.stderr.flush()


def unix_server(path: str, routes: Routes, heard: Callable[[], None]) -> _Server:
    """Listening when it returns. Bound under its lasting name: a renamed socket would be lost when a live desktop
    is saved."""
    if os.path.lexists(path):
        os.unlink(path)
    before = os.umask(0o177)
    try:
        return _Server(path, socket.AF_UNIX, routes, heard)
    finally:
        os.umask(before)


def local_server(port: int, routes: Routes) -> _Server:
    """For programs inside the desktop: they do not count as the owner speaking."""
    return _Server(("127.0.0.1", port), socket.AF_INET, routes, lambda: None)
