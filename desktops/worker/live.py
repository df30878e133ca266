"""Live views: a second websocket to the console for each person who watches, between it and the desktop's screen.

What the screen may hear of them is decided here (see rfb), since here is the last place that a browser has no say in.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Protocol

from pydantic import ValidationError
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from desktops.protocol import messages

from .computer import Computer
from .hold import Hold, NotNow
from .rfb import BadMessage, Filter

log = logging.getLogger(__name__)

MOST = 64  # views at once
DIAL_SECONDS = 10.0
# With several console processes the first dial may reach one that does not hold the browser.
DIAL_TRIES, DIAL_AGAIN_SECONDS = 20, 0.3
IDLE_SECONDS = 300.0  # whoever took a desktop over and does nothing has left it


class Host(Protocol):
    def seat(self, view: messages.OpenView) -> tuple[Computer, Hold | None]: ...


class _Elsewhere(Exception):
    """Another process of the console holds the browser."""


class LiveViews:
    """`open` on the event loop; each view is a task of its own until somebody leaves."""

    def __init__(self, *, url: str, token: str, host: Host) -> None:
        """`url` is that of the worker's own websocket."""
        self._url, self._token, self._host = url, token, host
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def open(self, view: messages.OpenView) -> None:
        """Opening what is open changes nothing."""
        if view.view in self._tasks:
            return
        if len(self._tasks) >= MOST:
            log.warning("%d live views are open, and no more are opened", MOST)
            return
        task = asyncio.create_task(self._serve(view), name=f"view-{view.view[:8]}")
        self._tasks[view.view] = task
        task.add_done_callback(lambda _: self._tasks.pop(view.view, None))

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, view: messages.OpenView) -> None:
        for _ in range(DIAL_TRIES):
            try:
                await self._dial(view)
            except _Elsewhere:
                await asyncio.sleep(DIAL_AGAIN_SECONDS)
                continue
            except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
                log.warning("the live view of desktop %s: %s", view.computer, error)
            return
        log.warning("no process of the console knows the live view of desktop %s", view.computer)

    async def _dial(self, view: messages.OpenView) -> None:
        async with connect(
            f"{self._url}/tunnel/{view.view}",
            additional_headers={"Authorization": f"Bearer {self._token}"},
            max_size=messages.INPUT_FRAME,
            open_timeout=DIAL_SECONDS,
            close_timeout=1,
            compression=None,  # pixels come compressed
            proxy=None,
            user_agent_header="deskyard-worker",
        ) as tunnel:
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    await tunnel.recv()  # a first `seen`: the browser is at the other end
            except ConnectionClosed as closed:
                if closed.rcvd is not None and closed.rcvd.code == messages.ELSEWHERE:
                    raise _Elsewhere from closed
                raise
            news = await self._show(view, tunnel)
            with contextlib.suppress(ConnectionClosed):
                await tunnel.send(news.model_dump_json())

    async def _show(self, view: messages.OpenView, tunnel: ClientConnection) -> messages.ViewNews:
        """Until one side ends; what the browser is told of that."""
        if view.drives:
            waiting = "Waiting for the step that is being played to end."
            await tunnel.send(messages.ViewNews(state="waiting", detail=waiting).model_dump_json())
        seated = asyncio.create_task(asyncio.to_thread(self._host.seat, view))
        try:
            computer, hold = await asyncio.shield(seated)
        except NotNow as reason:
            return messages.ViewNews(state="ended", detail=str(reason))
        except asyncio.CancelledError:
            seated.add_done_callback(_leave)
            raise
        try:
            screen = await asyncio.to_thread(computer.screen)
        except OSError as error:
            log.info("the screen of desktop %s: %s", view.computer, error)
            return messages.ViewNews(state="again", detail="The desktop's screen does not answer.")
        else:
            return await _Relay(tunnel, screen, drives=view.drives).run()
        finally:
            if hold is not None:
                hold.leave()


def _leave(seated: asyncio.Task[tuple[Computer, Hold | None]]) -> None:
    """A hold that came when its view was over already."""
    if not seated.cancelled() and seated.exception() is None and (hold := seated.result()[1]) is not None:
        hold.leave()


class _Relay:
    """Bytes both ways, each way at the pace of who takes them in."""

    def __init__(self, tunnel: ClientConnection, screen: socket.socket, *, drives: bool) -> None:
        self._tunnel, self._screen, self._drives = tunnel, screen, drives
        self._filter = Filter(drives=drives)
        self._sent = self._seen = 0  # pixels, in bytes
        self._room = asyncio.Event()
        self._active = asyncio.Event()  # whoever drives has done something

    async def run(self) -> messages.ViewNews:
        self._screen.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(sock=self._screen)
        ways: list[asyncio.Task[messages.ViewNews]] = []
        try:
            await self._tunnel.send(messages.ViewNews(state="live").model_dump_json())
            ways = [asyncio.create_task(self._pixels(reader)), asyncio.create_task(self._input(writer))]
            if self._drives:
                ways.append(asyncio.create_task(self._watch_idle()))
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _pixels(self, reader: asyncio.StreamReader) -> messages.ViewNews:
        try:
            while pixels := await reader.read(messages.VIEW_FRAME):
                await self._tunnel.send(pixels)
                self._sent += len(pixels)
                while self._sent - self._seen >= messages.VIEW_WINDOW:
                    self._room.clear()
                    await self._room.wait()
        except (ConnectionClosed, ConnectionError) as error:
            log.info("a live view ended: %s", error)
        return messages.ViewNews(state="again", detail="The connection to the desktop's screen ended.")

    async def _input(self, writer: asyncio.StreamWriter) -> messages.ViewNews:
        taken = inputs = 0
        try:
            async for frame in self._tunnel:
                if isinstance(frame, str):
                    text = messages.tunnel_text.validate_json(frame)
                    if isinstance(text, messages.Seen):
                        self._seen = min(max(self._seen, text.bytes), self._sent)
                        self._room.set()
                    continue
                writer.write(self._filter.feed(frame))
                await writer.drain()
                taken += len(frame)
                await self._tunnel.send(messages.Seen(bytes=taken).model_dump_json())
                if self._filter.inputs > inputs:
                    inputs = self._filter.inputs
                    self._active.set()
        except (BadMessage, ValidationError) as error:
            log.warning("a live view is ended: %s", error)
            return messages.ViewNews(
                state="ended", detail=f"Your browser said what no viewer says: {error}"[:500]
            )
        except (ConnectionClosed, ConnectionError) as error:
            log.info("a live view ended: %s", error)
        return messages.ViewNews(state="again", detail="The connection to the desktop's screen ended.")

    async def _watch_idle(self) -> messages.ViewNews:
        while True:
            self._active.clear()
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    await self._active.wait()
            except TimeoutError:
                minutes = f"{IDLE_SECONDS / 60:g}"
                detail = (
                    f"Nothing was typed or clicked for {minutes} minutes, so you have let go of the desktop."
                )
                return messages.ViewNews(state="ended", detail=detail)
