"""A port of 127.0.0.1 in front of a desktop's agent, for peers that speak HTTP to an address."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from typing import cast

Connect = Callable[[float], socket.socket]
CHUNK = 1 << 16
CONNECT_SECONDS = 10.0


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self, connect: Connect) -> None:
        super().__init__(("127.0.0.1", 0), _Passage)
        self.inward = connect


class _Passage(socketserver.BaseRequestHandler):
    """One connection: what comes from either side goes to the other until one hangs up."""

    def handle(self) -> None:
        outer = cast(socket.socket, self.request)
        with contextlib.closing(cast(_Server, self.server).inward(CONNECT_SECONDS)) as inner:
            inner.settimeout(None)
            back = threading.Thread(target=_pass_on, args=(inner, outer), daemon=True)
            back.start()
            _pass_on(outer, inner)
            back.join()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(CHUNK):
            target.sendall(data)
    except ConnectionError:
        pass  # whoever hung up has what it wanted; the other side is told below
    for end in (source, target):
        with contextlib.suppress(OSError):  # the other direction may have done it already
            end.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def bridge(connect: Connect) -> Iterator[int]:
    """The port while the context lasts; `connect` gives a fresh socket to the desktop's agent."""
    with _Server(connect) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
