"""The way between a worker and the console, which can be cut: nothing comes through, and nobody is told."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

CHUNK = 1 << 16


class Proxy:
    """Forwards each connection to `port` of this machine. While cut, bytes wait and new connections hang."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._open = threading.Event()
        self._open.set()
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._closing = False
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        """What was cut stays dead, as it does when a network comes back with another address."""
        self._drop()
        self._open.set()

    def _accept(self) -> None:
        while True:
            try:
                here, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(here,), daemon=True).start()

    def _connect(self, here: socket.socket) -> None:
        with self._lock:
            self._sockets.add(here)
        self._open.wait()
        try:
            there = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            self._end(here)
            return
        with self._lock:
            self._sockets.add(there)
        for source, sink in ((here, there), (there, here)):
            threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                self._open.wait()
                sink.sendall(data)
        self._end(source)
        self._end(sink)

    def _end(self, one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
        with self._lock:
            self._sockets.discard(one)

    def _drop(self) -> None:
        with self._lock:
            held = list(self._sockets)
        for one in held:
            self._end(one)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._drop()
