"""The one connection to the console: dials, says hello, sends what the spool holds, hears what is wanted.

Losing the console stops nothing here. Records and blobs wait on disk, and after the next welcome everything
past what the console has stored is sent again, in order.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Callable
from typing import Protocol

from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException

from desktops.protocol import messages

from .blobs import BlobRefused, BlobStore, Uploader
from .spool import Spool, Spooled, SpoolFull

log = logging.getLogger(__name__)

BATCH = messages.MAX_ITEMS  # items in a report, where the frame has room for them
UNACKNOWLEDGED = 4000  # items in flight: past this the console is given time to store them
ROOM = messages.MAX_FRAME - 1024  # bytes of items in one frame, envelope aside
WELCOME_SECONDS = 10
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 4.0  # seconds between two attempts to connect: well below a lease's time
SLOW_PAUSE = 10.0  # seconds, when trying again at once changes nothing
PING_SECONDS = 5  # a console that vanished without a word is noticed after two of these
QUIET_CLOSE_SECONDS = 1.0
# What the console means when it closes; the worker goes on trying, slowly, in case somebody mends it.
CLOSE_CODES = {
    1009: "it takes no frame of the size that this worker sent; are both of one version?",
    4400: "it does not understand this worker's hello; are both of one version?",
    4401: "the worker token is unknown, revoked or expired, or may not connect workers; make a new one",
    4409: "another worker of the same name has connected; give each one a DESKYARD_WORKER_NAME of its own",
}


class Listener(Protocol):
    """What the link tells, on its event loop: `on_…` must not wait. hello and heartbeat come from a thread."""

    def on_offer(self, offer: messages.Offer) -> None: ...
    def on_extend(self, extend: messages.Extend) -> None: ...
    def on_stop(self, stop: messages.Stop) -> None: ...
    def on_forget(self, forget: messages.Forget) -> None: ...
    def on_forget_image(self, forget: messages.ForgetImage) -> None: ...
    def on_ask(self, ask: messages.Ask) -> None: ...
    def on_view(self, view: messages.OpenView) -> None: ...
    def on_stale(self, assignment: str, epoch: int | None) -> None:
        """The console no longer takes this assignment's word (any epoch's up to `epoch`, if one is named)."""

    def on_blob_refused(self, assignment: str, epoch: int, detail: str) -> None: ...
    def hello(self) -> messages.Hello: ...
    def heartbeat(self) -> messages.Heartbeat: ...


class _Resync(Exception):
    """The connection must be made anew so that both sides agree on numbers again."""


class _TurnedAway(Exception):
    """The console does not want this worker as it is; it asks again now and then."""


class Link:
    """`run` until cancelled; `poke` from any thread when the spool has something new."""

    def __init__(
        self, *, url: str, token: str, spool: Spool, blobs: BlobStore, uploader: Uploader, listener: Listener
    ) -> None:
        self._url, self._token = url, token
        self._spool, self._blobs, self._uploader, self._listener = spool, blobs, uploader, listener
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._moved = asyncio.Event()  # an acknowledgement came, or a heartbeat went
        self._beat = asyncio.Event()
        self._beats_begun = self._beats_sent = 0
        self.connected = False
        spool.on_append(self.poke)

    # ── from other threads ────────────────────────────────────────────────────────────────────────────────

    def poke(self) -> None:
        """There is a new record."""
        self._wake(self._news.set)

    def beat(self) -> None:
        """Something held has changed: say so now rather than at the next heartbeat."""
        self._wake(self._beat.set)

    def _wake(self, call: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(call)

    # ── the connection ────────────────────────────────────────────────────────────────────────────────────

    async def run(self) -> None:
        """Stay connected until cancelled."""
        self._loop = asyncio.get_running_loop()
        pause = FIRST_PAUSE
        while True:
            try:
                async with connect(
                    self._url,
                    additional_headers={"Authorization": f"Bearer {self._token}"},
                    max_size=messages.MAX_FRAME,
                    open_timeout=WELCOME_SECONDS,
                    ping_interval=PING_SECONDS,
                    ping_timeout=PING_SECONDS,
                    close_timeout=QUIET_CLOSE_SECONDS,
                    proxy=None,  # uploads go the same, direct way
                    user_agent_header="deskyard-worker",
                ) as socket:
                    await self._greet(socket)
                    pause = FIRST_PAUSE
                    await self._talk(socket)
            except _Resync as reason:
                log.warning("connecting again: %s", reason)
            except _TurnedAway as reason:
                log.error("the console turns this worker away: %s", reason)
                pause = SLOW_PAUSE
            except ConnectionClosed as error:
                code = error.rcvd.code if error.rcvd is not None else 1006
                why = CLOSE_CODES.get(code, str(error))
                log.warning("the connection to the console ended: %s", why)
                if code in CLOSE_CODES:
                    pause = SLOW_PAUSE  # at once would change nothing, and two of one name would fight
            except SpoolFull as error:
                log.error("%s; what the console has stored cannot be forgotten here yet", error)
                pause = SLOW_PAUSE
            except InvalidStatus as error:
                status = error.response.status_code
                hint = "; is the token right?" if status in (401, 403) else ""
                log.warning("the console at %s answered %s%s", self._url, status, hint)
            except (OSError, TimeoutError, WebSocketException, InvalidHandshake) as error:
                why = str(error) or type(error).__name__
                log.warning("no connection to the console at %s: %s", self._url, why)
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, max(pause, LONGEST_PAUSE))

    async def drained(self, seconds: float) -> bool:
        """Wait until everything in the spool is acknowledged and how things stand now was said, at most that long."""
        last = self._beats_begun + 1
        self._beat.set()

        def done() -> bool:
            return self._spool.acknowledged >= self._spool.last and self._beats_sent >= last

        try:
            async with asyncio.timeout(seconds):
                while not done():
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            return done()
        return True

    async def _greet(self, socket: ClientConnection) -> None:
        # Said from a thread, as each heartbeat is: both read the spool, and its disk may be slow.
        hello = await asyncio.to_thread(self._listener.hello)
        await socket.send(hello.model_dump_json())
        async with asyncio.timeout(WELCOME_SECONDS):
            frame = await socket.recv()
            try:
                first = messages.from_console.validate_json(frame)
            except ValidationError as error:
                raise _Resync(f"the console's first message is none: {error.errors()[0]['msg']}") from error
            if isinstance(first, messages.Refused) and first.code == "name_taken":
                raise _TurnedAway(first.detail)
            if isinstance(first, messages.Refused):
                raise _Resync(f"the console refused this worker: {first.code}: {first.detail}")
        if not isinstance(first, messages.Welcome):
            raise _Resync(f"the console said {first.type} before welcome")
        if not self._spool.fits(first.applied):
            self._spool.renew()
            raise _Resync(
                f"the console has stored up to {first.applied}, which does not fit; starting a new instance"
            )
        await self._acknowledge(first.applied)
        log.info("connected to %s as worker %s", self._url, first.worker)

    async def _talk(self, socket: ClientConnection) -> None:
        tasks: list[asyncio.Task[None]] = []
        self.connected = True
        try:
            # A closed connection ends all three, whichever noticed it first.
            tasks = [
                asyncio.create_task(task(socket)) for task in (self._hear, self._report, self._heartbeats)
            ]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self.connected = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # ── what is heard ─────────────────────────────────────────────────────────────────────────────────────

    async def _hear(self, socket: ClientConnection) -> None:
        async for frame in socket:
            try:
                message = messages.from_console.validate_json(frame)
            except ValidationError as error:
                log.warning("a message of the console is ignored: %s", error.errors()[0]["msg"])
                continue
            match message:
                case messages.Acknowledge():
                    await self._acknowledge(message.applied)
                case messages.Offer():
                    self._listener.on_offer(message)
                case messages.Extend():
                    self._listener.on_extend(message)
                case messages.Stop():
                    self._listener.on_stop(message)
                case messages.Forget():
                    self._listener.on_forget(message)
                case messages.ForgetImage():
                    self._listener.on_forget_image(message)
                case messages.Ask():
                    self._listener.on_ask(message)
                case messages.OpenView():
                    self._listener.on_view(message)
                case messages.Refused():
                    self._refused(message)
                case messages.Welcome():
                    log.warning("a second welcome is ignored")
        raise _Resync("the console closed the connection")

    async def _acknowledge(self, applied: int) -> None:
        # In a thread: the disk may be slow, and heartbeats must not wait for it.
        freed = await asyncio.to_thread(self._spool.acknowledge, applied)
        if freed:
            await asyncio.to_thread(self._blobs.drop, freed)
        self._moved.set()

    def _refused(self, message: messages.Refused) -> None:
        log.warning("the console refused: %s: %s", message.code, message.detail)
        if message.code == "gap":
            raise _Resync("the console misses records")
        if message.code not in ("stale_epoch", "unknown_assignment"):
            return
        owner = self._spool.owner(message.number) if message.number is not None else None
        if owner is not None:
            self._listener.on_stale(*owner)
        elif message.assignment is not None and (message.number is None or message.epoch is not None):
            self._listener.on_stale(message.assignment, message.epoch)

    # ── what is said ──────────────────────────────────────────────────────────────────────────────────────

    async def _heartbeats(self, socket: ClientConnection) -> None:
        while True:
            self._beat.clear()
            self._beats_begun += 1
            beat = await asyncio.to_thread(self._listener.heartbeat)
            await socket.send(beat.model_dump_json())
            self._beats_sent = self._beats_begun
            self._moved.set()
            try:
                async with asyncio.timeout(messages.HEARTBEAT_SECONDS):
                    await self._beat.wait()
            except TimeoutError:
                continue

    async def _report(self, socket: ClientConnection) -> None:
        """Send everything past what is acknowledged, in order, each record after the blobs it names.

        1. Take the next items and start the uploads of all their blobs at once.
        2. Walk the items: those whose blobs are there fill a frame; one that must wait first sends the frame.
        3. Send the rest, and wait for news.
        """
        cursor = self._spool.acknowledged
        while True:
            self._news.clear()
            items = await asyncio.to_thread(self._spool.after, cursor, limit=BATCH)
            if not items:
                await self._news.wait()
                continue
            digests = dict.fromkeys(digest for item in items for digest in item.blobs)
            uploads = {digest: asyncio.create_task(self._settle_blob(digest)) for digest in digests}
            try:
                await self._send_items(socket, items, uploads)
            finally:
                for upload in uploads.values():
                    upload.cancel()
                await asyncio.gather(*uploads.values(), return_exceptions=True)
            cursor = items[-1].number
            while cursor - self._spool.acknowledged > UNACKNOWLEDGED:
                self._moved.clear()
                await self._moved.wait()

    async def _send_items(
        self, socket: ClientConnection, items: list[Spooled], uploads: dict[str, asyncio.Task[str | None]]
    ) -> None:
        frame: list[str] = []
        size = 0
        for item in items:
            text = _item_json(item)
            length = len(text.encode()) + 1
            waiting = [uploads[digest] for digest in item.blobs if not uploads[digest].done()]
            if frame and (waiting or size + length > ROOM):
                await self._send(socket, frame)
                frame, size = [], 0
            if waiting:
                await asyncio.wait(waiting)
            for digest in item.blobs:
                if (problem := uploads[digest].result()) is not None:
                    self._listener.on_blob_refused(item.assignment, item.epoch, problem)
            frame.append(text)
            size += length
        await self._send(socket, frame)

    async def _settle_blob(self, digest: str) -> str | None:
        """None once the console has it; a sentence if it never will: then the record goes without."""
        try:
            await self._uploader.ensure(digest)
        except BlobRefused as error:
            return str(error)
        return None

    async def _send(self, socket: ClientConnection, frame: list[str]) -> None:
        await socket.send('{"type":"report","items":[' + ",".join(frame) + "]}")


def _item_json(item: Spooled) -> str:
    """One SpoolItem; the record is JSON text already and is not parsed again."""
    head = (
        f'{{"number":{item.number},"assignment":{json.dumps(item.assignment)},"epoch":{item.epoch},"record":'
    )
    return head + item.record + "}"
