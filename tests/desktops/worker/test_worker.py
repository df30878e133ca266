"""The whole worker process against a console in memory, on made-up desktops."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import asynccontextmanager

import pytest

from desktops.worker.__main__ import main, serve
from desktops.worker.config import Config
from desktops.worker.testing import TOKEN, ConsoleDouble
from desktops.worker.testing_desktop import IMAGE, FakeEngine, slow

from .orders import order

LONG = [{"action": "move", "x": 1, "y": 1}] * 15


@pytest.fixture
async def console():
    async with ConsoleDouble() as console:
        yield console


def config(console: ConsoleDouble, tmp_path) -> Config:
    return Config(console.url, TOKEN, "w", tmp_path / "worker", "fake", slots=2)


@asynccontextmanager
async def worker(console: ConsoleDouble, tmp_path, engine: FakeEngine | None = None):
    """A worker in this process; stopped as by SIGTERM at the end."""
    engine, stop = engine or FakeEngine(), asyncio.Event()
    task = asyncio.create_task(serve(config(console, tmp_path), engine=engine, stop=stop))
    try:
        yield engine
    finally:
        stop.set()
        await task
        assert engine.desks == {}


async def test_an_offer_becomes_a_verdict(tmp_path, console):
    async with worker(console, tmp_path):
        await console.offer("a", order())
        ended = await console.ended("a")
        assert ended["ok"]
        hello = console.hellos[0]
        assert [image.digest for image in hello.images] == [IMAGE.digest]
        assert hello.slots == 2
        assert console.without_blob == []
        await console.until(lambda: console.heartbeats[-1].held == [])


async def test_attempts_run_side_by_side_and_the_rest_waits_for_a_slot(tmp_path, console):
    engine = FakeEngine()
    engine.on_call = slow(0.05)
    async with worker(console, tmp_path, engine):
        for name in "abcd":
            await console.offer(name, order())
        for name in "ab":
            assert (await console.ended(name))["ok"]
        assert len(engine.made) == 2
        for name in "cd":  # the console offers again what no heartbeat names
            await console.offer(name, order())
            assert (await console.ended(name))["ok"]


async def test_an_attempt_plays_on_while_the_console_is_away(tmp_path, console):
    engine = FakeEngine()
    async with worker(console, tmp_path, engine):
        engine.on_call = slow(0.1)
        await console.offer("a", order(recipe=LONG))
        await console.until(lambda: "step" in console.kinds("a"))
        await console.down()
        await asyncio.to_thread(_wait_gone, engine)
        await console.up()
        assert (await console.ended("a"))["ok"]
        numbers = [record["number"] for record in console.records("a") if record["kind"] == "step"]
        assert numbers == list(range(1, 16))


def _wait_gone(engine: FakeEngine) -> None:
    while engine.desks:
        time.sleep(0.02)  # between two looks


async def test_a_stop_does_not_wait_for_the_action_under_way(tmp_path, console):
    from desktops.protocol.messages import Stop

    engine = FakeEngine()
    engine.on_call = slow(10.0)
    async with worker(console, tmp_path, engine):
        await console.offer("a", order(recipe=LONG))
        await console.until(lambda: "setup_done" in console.kinds("a"))
        asked = time.monotonic()
        await console.say(Stop(assignment="a", epoch=1, reason="cancelled_by_user"))
        ended = await console.ended("a")
        assert time.monotonic() - asked < 10
        assert ended["stopped"]
        assert console.kinds("a")[-2] == "computer_stopped"


async def test_money_ends_a_desktop_before_its_time(tmp_path, console):
    engine = FakeEngine()
    engine.on_call = slow(0.5)
    async with worker(console, tmp_path, engine):
        await console.offer("a", order(recipe=LONG), seconds=5)
        ended = await console.ended("a")
        assert ended["invalid_reasons"] == ["paid_until_reached"]


async def test_a_shut_down_ends_the_desktops_and_tells_the_console(tmp_path, console):
    engine = FakeEngine()
    engine.on_call = slow(0.5)
    async with worker(console, tmp_path, engine):
        await console.offer("a", order(recipe=LONG))
        await console.until(lambda: "setup_done" in console.kinds("a"))
    ended = await console.ended("a", 1)
    assert ended["invalid_reasons"] == ["worker_stopped"]
    assert "shut down" in ended["detail"]


async def _process(console: ConsoleDouble, tmp_path) -> asyncio.subprocess.Process:
    environ = os.environ | {
        "DESKYARD_URL": console.url,
        "DESKYARD_WORKER_TOKEN": TOKEN,
        "DESKYARD_WORKER_NAME": "w",
        "DESKYARD_WORKER_HOME": str(tmp_path / "worker"),
        "DESKYARD_ENGINE": "fake",
    }
    return await asyncio.create_subprocess_exec(sys.executable, "-m", "desktops.worker", env=environ)


async def test_a_killed_worker_tells_at_its_next_start_what_became_of_its_attempts(tmp_path, console):
    console.acknowledging = False
    first = await _process(console, tmp_path)
    await console.offer("a", order(recipe=[{"action": "wait", "seconds": 60}] * 15, max_steps=1_000_000))
    await console.until(lambda: "computer_started" in console.kinds("a"))
    first.send_signal(signal.SIGKILL)
    await first.wait()
    console.acknowledging = True
    second = await _process(console, tmp_path)
    ended = await console.ended("a")
    second.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(second.wait(), 15) == 0
    instances = {hello.instance for hello in console.hellos}
    assert len(instances) == 1
    if ended["ok"]:  # the made-up desktop is quick: it may have been over before the kill
        return
    assert "started again" in ended["detail"]
    assert console.kinds("a").count("computer_stopped") == 1


async def test_the_process_ends_cleanly_on_sigterm(tmp_path, console):
    process = await _process(console, tmp_path)
    await console.until(lambda: console.heartbeats)
    process.send_signal(signal.SIGTERM)
    assert await asyncio.wait_for(process.wait(), 15) == 0


def test_bad_settings_end_with_a_sentence(capsys, monkeypatch):
    monkeypatch.delenv("DESKYARD_URL", raising=False)
    assert main([]) == 2
    assert "DESKYARD_URL" in capsys.readouterr().err
