"""A console in memory for tests of the worker: it speaks the protocol and keeps what it hears.

It applies every record once, as the real one does, and can be told to be late, absent or rude.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Any

from pydantic import ValidationError
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from desktops.protocol import messages

TOKEN = "dy_test_worker"  # noqa: S105 (opens nothing but this double)
PIPE_BYTES = 65536


class ConsoleDouble:
    """Use as an async context manager. `url` is the base address for websocket and blobs alike."""

    def __init__(self) -> None:
        self.hellos: list[messages.Hello] = []
        self.heartbeats: list[messages.Heartbeat] = []
        self.items: list[messages.SpoolItem] = []  # applied, in order
        self.repeated = 0  # items heard again after they were applied
        self.without_blob: list[int] = []  # numbers of records that came before a blob they name
        self.applied: dict[str, int] = {}
        self.epochs: dict[str, int] = {}  # the newest lease of each assignment; older ones are stale
        self.blobs: dict[str, bytes] = {}
        self.puts: list[str] = []
        self.acknowledging = True
        self.blob_status = 201
        self.cut_after_bytes: int | None = None  # of worker's frames, then the connection breaks
        self.tunnels: asyncio.Queue[ServerConnection] = (
            asyncio.Queue()
        )  # of live views, as the worker dials them
        self._socket: ServerConnection | None = None
        self._instance = ""
        self._pipes: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()
        self._inner: Server | None = None
        self._front: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> ConsoleDouble:
        self._inner = await serve(
            self._dialled, "127.0.0.1", 0, max_size=messages.MAX_FRAME, close_timeout=0.2
        )
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.down()
        if self._inner is not None:
            self._inner.close()
            await self._inner.wait_closed()

    # ── what a test does to it ────────────────────────────────────────────────────────────────────────────

    async def up(self) -> None:
        self._front = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._front.sockets[0].getsockname()[1]

    async def down(self) -> None:
        """Nobody listens any longer, and every connection breaks."""
        if self._front is not None:
            self._front.close()
            self.cut()
            await self._front.wait_closed()
            self._front = None

    def cut(self) -> None:
        """Every connection breaks without a word."""
        for writer in list(self._pipes):
            writer.transport.abort()

    async def offer(
        self,
        assignment: str,
        payload: dict[str, Any],
        *,
        epoch: int = 1,
        kind: str = "attempt",
        seconds: float = 300,
    ) -> None:
        self.epochs[assignment] = max(epoch, self.epochs.get(assignment, 0))
        paid_until = datetime.now(UTC) + timedelta(seconds=seconds)
        await self.say(
            messages.Offer(
                assignment=assignment, epoch=epoch, kind=kind, payload=payload, paid_until=paid_until
            )
        )

    async def say(self, message: Any) -> None:
        """Send a protocol message, or any text."""
        await self.until(lambda: self._socket is not None)
        assert self._socket is not None
        await self._socket.send(message if isinstance(message, str) else message.model_dump_json())

    async def until(self, holds: Callable[[], object], seconds: float = 20) -> None:
        """Wait until something heard makes it true. Raises TimeoutError."""
        async with asyncio.timeout(seconds):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    def records(self, assignment: str, epoch: int | None = None) -> list[dict[str, Any]]:
        return [
            item.record
            for item in self.items
            if item.assignment == assignment and epoch in (None, item.epoch)
        ]

    def kinds(self, assignment: str) -> list[str]:
        return [record["kind"] for record in self.records(assignment)]

    async def ended(self, assignment: str, seconds: float = 60) -> dict[str, Any]:
        """The assignment's last record, once it is there."""
        last = {"attempt_ended", "prefix_ended"}
        await self.until(lambda: not last.isdisjoint(self.kinds(assignment)), seconds)
        return self.records(assignment)[-1]

    # ── the websocket ─────────────────────────────────────────────────────────────────────────────────────

    async def _dialled(self, socket: ServerConnection) -> None:
        path = socket.request.path if socket.request else ""
        if "/tunnel/" in path:
            await socket.send(messages.Seen(bytes=0).model_dump_json())
            await self.tunnels.put(socket)
            await socket.wait_closed()
        else:
            await self._worker(socket)

    async def _worker(self, socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            hello = messages.from_worker.validate_json(await socket.recv())
            assert isinstance(hello, messages.Hello)
            self.hellos.append(hello)
            self._instance = hello.instance
            applied = self.applied.setdefault(hello.instance, 0)
            await socket.send(messages.Welcome(worker="w-1", applied=applied).model_dump_json())
            self._socket = socket
            self._changed.set()
            async for frame in socket:
                await self._hear(socket, frame)
                self._changed.set()
        if self._socket is socket:
            self._socket = None

    async def _hear(self, socket: ServerConnection, frame: str | bytes) -> None:
        try:
            message = messages.from_worker.validate_json(frame)
        except ValidationError as error:
            refused = messages.Refused(code="bad_message", detail=str(error)[:300])
            await socket.send(refused.model_dump_json())
            return
        if isinstance(message, messages.Heartbeat):
            self.heartbeats.append(message)
        elif isinstance(message, messages.Report):
            for item in message.items:
                await self._apply(socket, item)
            await self.acknowledge()

    async def acknowledge(self) -> None:
        if self.acknowledging and self._socket is not None:
            message = messages.Acknowledge(applied=self.applied[self._instance])
            await self._socket.send(message.model_dump_json())

    async def _apply(self, socket: ServerConnection, item: messages.SpoolItem) -> None:
        applied = self.applied[self._instance]
        if item.number <= applied:
            self.repeated += 1
            return
        if item.number > applied + 1:
            refused = messages.Refused(
                code="gap", detail=f"{item.number} after {applied}", number=item.number
            )
            await socket.send(refused.model_dump_json())
            return
        self.applied[self._instance] = item.number
        if item.epoch < self.epochs.get(item.assignment, 0):
            refused = messages.Refused(
                code="stale_epoch", detail="a newer lease", number=item.number, assignment=item.assignment
            )
            await socket.send(refused.model_dump_json())
            return
        screenshot = item.record.get("screenshot")
        if screenshot is not None and screenshot not in self.blobs:
            self.without_blob.append(item.number)
        self.items.append(item)

    # ── connections: blobs are answered here, websockets are passed on ────────────────────────────────────

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._pipes.add(writer)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    head = await reader.readuntil(b"\r\n\r\n")
                    if head.startswith((b"GET /ws/worker ", b"GET /ws/worker/tunnel/")):
                        await self._pass_on(head, reader, writer)
                        return
                    await self._blob(head.decode(), reader, writer)
        finally:
            self._pipes.discard(writer)
            writer.close()

    async def _blob(self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = head.lower().split("\r\n")
        method, path = lines[0].split()[:2]
        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        digest = path.rpartition("/")[2]
        if headers.get("authorization") != f"bearer {TOKEN}":
            status = 401
        elif method == "head":
            status = 200 if digest in self.blobs else 404
        elif self.blob_status != 201:
            status = self.blob_status
        elif hashlib.sha256(body).hexdigest() != digest:
            status = 422
        else:
            status = 201
            self.puts.append(digest)
            self.blobs[digest] = body
        writer.write(f"HTTP/1.1 {status} Said\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        self._changed.set()

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._inner is not None
        if f"authorization: bearer {TOKEN}".encode() not in head.lower():
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            return
        port = next(iter(self._inner.sockets)).getsockname()[1]
        inward_reader, inward = await asyncio.open_connection("127.0.0.1", port)
        inward.write(head)
        try:
            ways = [
                asyncio.create_task(self._pipe(reader, inward, counted=True)),
                asyncio.create_task(self._pipe(inward_reader, writer, counted=False)),
            ]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            inward.transport.abort()

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(PIPE_BYTES):
                if counted and self.cut_after_bytes is not None:
                    data, left = data[: self.cut_after_bytes], self.cut_after_bytes - len(data)
                    writer.write(data)
                    self.cut_after_bytes = max(0, left)
                    if left <= 0:
                        self.cut_after_bytes = None
                        return
                else:
                    writer.write(data)
                await writer.drain()
