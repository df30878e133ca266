"""Screenshots and evidence files: on disk by their digest, then to the console, then gone."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import http.client
import logging
import os
import random
import socket
import ssl
import threading
from collections import OrderedDict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from .spool import SpoolFull

log = logging.getLogger(__name__)

UPLOADERS = 3  # connections at once: enough to hide latency, few enough to leave the desktops their processor
TIMEOUT = 30  # seconds for one request
LONGEST_PAUSE = 10.0  # seconds between two tries
REMEMBERED = 4096  # digests known to be stored: an unchanged screen is sent once


class BlobRefused(Exception):
    """The console will never take this blob: trying again does not help."""


class UploadFailed(Exception):
    """An upload did not succeed this time."""


class BlobStore:
    """A folder of files named by their SHA-256."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._fresh: dict[str, int] = {}  # written, not yet named by a spooled record: must not be swept
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def put(self, data: bytes) -> str:
        """Store bytes, give their digest. The caller says `settled` once a record names it. Raises
        SpoolFull.
        """
        digest = hashlib.sha256(data).hexdigest()
        path = self._path(digest)
        with self._lock:
            self._fresh[digest] = self._fresh.get(digest, 0) + 1
            if path.exists():
                return digest
            path.parent.mkdir(exist_ok=True)
            draft = path.with_suffix(".part")
            try:
                draft.write_bytes(data)
                os.replace(draft, path)
            except OSError as error:
                draft.unlink(missing_ok=True)
                self._forget(digest)
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise SpoolFull(f"the disk of {self._folder} is full") from error
                raise
        return digest

    def settled(self, digests: Iterable[str]) -> None:
        """A spooled record names these now, or never will."""
        with self._lock:
            for digest in digests:
                self._forget(digest)

    def read(self, digest: str) -> bytes:
        """Raises FileNotFoundError."""
        return self._path(digest).read_bytes()

    def drop(self, digests: Iterable[str]) -> None:
        """Remove files, except those that a record is just about to name."""
        with self._lock:
            for digest in digests:
                if digest not in self._fresh:
                    self._path(digest).unlink(missing_ok=True)

    def keep_only(self, named: set[str]) -> None:
        """Remove what no spooled record names: left by a worker that died between file and record."""
        for path in self._folder.glob("??/*"):
            if path.name not in named:
                self.drop([path.name]) if path.suffix == "" else path.unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def _forget(self, digest: str) -> None:
        left = self._fresh.get(digest, 0) - 1
        if left > 0:
            self._fresh[digest] = left
        else:
            self._fresh.pop(digest, None)


class Uploader:
    """Puts blobs to the console over a few kept-alive connections. `ensure` belongs to one event loop."""

    def __init__(self, store: BlobStore, *, url: str, token: str) -> None:
        self._store = store
        self._url = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "deskyard-worker"}
        self._pool = ThreadPoolExecutor(UPLOADERS, thread_name_prefix="upload")
        self._lock = threading.Lock()
        self._closed = False
        self._connections: set[http.client.HTTPConnection] = set()
        self._idle: list[http.client.HTTPConnection] = []
        self._stored: OrderedDict[str, None] = OrderedDict()

    async def ensure(self, digest: str) -> None:
        """Return when the console has the blob, however long that takes. Raises BlobRefused."""
        pause, tried = 0.2, False
        while digest not in self._stored:
            try:
                await asyncio.get_running_loop().run_in_executor(self._pool, self._upload, digest, tried)
            except UploadFailed as error:
                log.warning("blob %s not uploaded yet: %s", digest[:12], error)
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))
                pause, tried = min(pause * 2, LONGEST_PAUSE), True
            else:
                self._stored[digest] = None
                while len(self._stored) > REMEMBERED:
                    self._stored.popitem(last=False)

    def close(self) -> None:
        """Break off what is under way; it is sent again at the next start."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._closed = True
            for connection in self._connections:
                if connection.sock is not None:
                    with contextlib.suppress(OSError):  # it may be closed already
                        connection.sock.shutdown(socket.SHUT_RDWR)
        self._pool.shutdown(wait=True)
        for connection in self._connections:
            connection.close()

    def _upload(self, digest: str, tried: bool) -> None:
        try:
            data = self._store.read(digest)
        except FileNotFoundError as error:
            raise BlobRefused(f"the file of blob {digest} is gone from this worker's disk") from error
        # The reply to an earlier try may have been lost: ask before sending it all again.
        if tried and self._request("HEAD", digest, None)[0] in (200, 204):
            return
        status, reason = self._request("PUT", digest, data)
        if 200 <= status < 300:
            return
        if status in (400, 409, 413, 415, 422):
            raise BlobRefused(f"the console answered {status} {reason} to a blob of {len(data)} bytes")
        raise UploadFailed(f"the console answered {status} {reason}")

    def _request(self, method: str, digest: str, body: bytes | None) -> tuple[int, str]:
        path = f"{self._url.path.rstrip('/')}/v1/worker/blobs/{digest}"
        headers = self._headers | ({"Content-Type": "application/octet-stream"} if body is not None else {})
        while True:
            connection, reused = self._take()
            try:
                connection.request(method, path, body=body, headers=headers)
                reply = connection.getresponse()
                reply.read()
            except (http.client.HTTPException, OSError) as error:
                connection.close()
                with self._lock:
                    self._connections.discard(connection)
                # A kept-alive connection may have been closed by the other side: take another at once.
                if not reused or self._closed:
                    raise UploadFailed(f"{type(error).__name__}: {error}") from error
            else:
                with self._lock:
                    self._idle.append(connection)
                return reply.status, reply.reason

    def _take(self) -> tuple[http.client.HTTPConnection, bool]:
        with self._lock:
            if self._idle:
                return self._idle.pop(), True
            host, port = self._url.hostname or "", self._url.port
            connection = (
                http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=ssl.create_default_context())
                if self._url.scheme == "https"
                else http.client.HTTPConnection(host, port, timeout=TIMEOUT)
            )
            self._connections.add(connection)
            return connection, False
