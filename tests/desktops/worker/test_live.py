"""Live views on made-up desktops: what reaches the screen, what comes of taking over, and how a view ends."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from desktops.protocol import messages
from desktops.worker import live
from desktops.worker.testing import ConsoleDouble
from desktops.worker.testing_desktop import SERVER_INIT, FakeDesk, FakeEngine, slow

from .orders import order
from .test_worker import LONG, worker

REQUEST = struct.pack(">BBHHHH", 3, 0, 0, 0, 1920, 1080)
KEY = struct.pack(">BBxxI", 4, 1, 0x61)


@pytest.fixture
async def console():
    async with ConsoleDouble() as console:
        yield console


class Viewer:
    """A browser at the far end of a tunnel."""

    def __init__(self, tunnel: ServerConnection) -> None:
        self._tunnel = tunnel

    async def say(self, data: bytes) -> None:
        await self._tunnel.send(data)

    async def news(self) -> messages.ViewNews:
        """The next word on how the view stands; pixels and counts are passed over."""
        async with asyncio.timeout(10):
            while True:
                frame = await self._tunnel.recv()
                if isinstance(frame, str):
                    text = messages.tunnel_text.validate_json(frame)
                    if isinstance(text, messages.ViewNews):
                        return text

    async def greet(self) -> None:
        """RFB's handshake, up to what the screen says of itself."""
        await self._tunnel.send(b"RFB 003.008\n\x01\x01")
        said = b""
        async with asyncio.timeout(10):
            while not said.endswith(SERVER_INIT):
                frame = await self._tunnel.recv()
                said += frame if isinstance(frame, bytes) else b""

    async def leave(self) -> None:
        await self._tunnel.close()


async def open_view(console: ConsoleDouble, desk: FakeDesk, **changes: Any) -> Viewer:
    wanted = {"view": "v-1", "assignment": "a", "epoch": 1, "computer": desk.computer} | changes
    await console.say(messages.OpenView(**wanted))
    async with asyncio.timeout(10):
        return Viewer(await console.tunnels.get())


async def playing(console: ConsoleDouble, engine: FakeEngine, **changes: Any) -> FakeDesk:
    """A desktop in the middle of an attempt of fifteen slow steps."""
    engine.on_call = slow(0.1)
    await console.offer("a", order(recipe=LONG, **changes))
    await console.until(lambda: "setup_done" in console.kinds("a"))
    return engine.made[-1]


async def heard(desk: FakeDesk, count: int) -> bytes:
    async with asyncio.timeout(10):
        while len(desk.heard) < count:
            await asyncio.sleep(0.01)
    return bytes(desk.heard)


async def test_a_watcher_sees_the_screen_and_cannot_touch_it(tmp_path, console):
    async with worker(console, tmp_path) as engine:
        desk = await playing(console, engine)
        viewer = await open_view(console, desk)
        assert (await viewer.news()).state == "live"
        await viewer.greet()
        await viewer.say(KEY + REQUEST)
        assert await heard(desk, len(REQUEST)) == REQUEST
        await viewer.leave()
        assert (await console.ended("a"))["invalid_reasons"] == []


async def test_taking_over_stops_the_policy_and_leaves_no_verdict(tmp_path, console):
    async with worker(console, tmp_path) as engine:
        desk = await playing(console, engine)
        viewer = await open_view(console, desk, drives=True, by="Olga Owner")
        assert (await viewer.news()).state == "waiting"
        assert (await viewer.news()).state == "live"
        acted = len(desk.actions)
        assert 0 < acted < len(LONG)
        await console.until(lambda: console.kinds("a")[-1] == "taken_over")
        assert console.records("a")[-1]["by"] == "Olga Owner"
        await viewer.greet()
        await viewer.say(KEY)
        assert await heard(desk, len(KEY)) == KEY
        assert len(desk.actions) == acted  # nobody else acts while they hold it
        assert engine.desks != {}
        await viewer.leave()
        ended = await console.ended("a")
        assert (ended["ok"], ended["invalid_reasons"]) == (False, ["human_intervened"])
        assert ended["detail"] == "Olga Owner took the desktop over"
        assert "verdict" not in console.kinds("a")


async def test_whoever_holds_a_desktop_and_does_nothing_has_left_it(tmp_path, console, monkeypatch):
    monkeypatch.setattr(live, "IDLE_SECONDS", 0.3)
    async with worker(console, tmp_path) as engine:
        desk = await playing(console, engine)
        viewer = await open_view(console, desk, drives=True)
        assert [(await viewer.news()).state for _ in range(3)] == ["waiting", "live", "ended"]
        assert (await console.ended("a"))["invalid_reasons"] == ["human_intervened"]


async def test_only_one_person_holds_a_desktop(tmp_path, console):
    async with worker(console, tmp_path) as engine:
        desk = await playing(console, engine)
        first = await open_view(console, desk, drives=True, by="Olga Owner")
        assert [(await first.news()).state for _ in range(2)] == ["waiting", "live"]
        second = await open_view(console, desk, view="v-2", drives=True, by="Adam Admin")
        assert (await second.news()).state == "waiting"
        refused = await second.news()
        assert (refused.state, "Olga Owner" in refused.detail) == ("ended", True)
        await first.leave()
        await console.ended("a")


async def test_a_stop_goes_before_whoever_holds_the_desktop(tmp_path, console):
    async with worker(console, tmp_path) as engine:
        desk = await playing(console, engine)
        viewer = await open_view(console, desk, drives=True)
        assert [(await viewer.news()).state for _ in range(2)] == ["waiting", "live"]
        await console.say(messages.Stop(assignment="a", epoch=1, reason="cancelled_by_user"))
        assert (await console.ended("a"))["invalid_reasons"] == ["human_intervened"]
        assert (await viewer.news()).state == "again"


async def test_a_desktop_that_is_being_judged_is_not_taken_over(tmp_path, console):
    engine = FakeEngine()
    engine.on_call = slow(2.0, "/run")
    async with worker(console, tmp_path, engine):
        await console.offer("a", order())
        await console.until(lambda: "verifying" in console.kinds("a"))
        viewer = await open_view(console, engine.made[-1], drives=True)
        assert (await viewer.news()).state == "waiting"
        refused = await viewer.news()
        assert (refused.state, "verdict" in refused.detail) == ("ended", True)
        assert (await console.ended("a"))["ok"]
        assert "taken_over" not in console.kinds("a")


@pytest.mark.parametrize(
    "other", [{"computer": "another"}, {"assignment": "b"}, {"epoch": 2}], ids=lambda other: next(iter(other))
)
async def test_what_is_not_held_here_is_not_shown(other, tmp_path, console):
    async with worker(console, tmp_path) as engine:
        desk = await playing(console, engine)
        viewer = await open_view(console, desk, **other)
        assert (await viewer.news()).state == "ended"
        await console.ended("a")


async def test_what_no_viewer_says_ends_the_view_and_nothing_else(tmp_path, console):
    async with worker(console, tmp_path) as engine:
        desk = await playing(console, engine)
        viewer = await open_view(console, desk)
        assert (await viewer.news()).state == "live"
        await viewer.greet()
        await viewer.say(b"\xfa" + bytes(8))
        assert (await viewer.news()).state == "ended"
        with pytest.raises(ConnectionClosed):
            await viewer.news()
        assert desk.heard == b""
        await console.ended("a")


async def test_a_shut_down_waits_for_nobody_who_watches(tmp_path, console):
    async with worker(console, tmp_path) as engine:
        desk = await playing(console, engine)
        watching = await open_view(console, desk)
        assert (await watching.news()).state == "live"
    assert (await console.ended("a"))["invalid_reasons"] == ["worker_stopped"]
