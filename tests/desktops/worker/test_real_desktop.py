"""The whole worker on a real desktop: played, lost, cancelled, out of money."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import runs.tasksets
from desktops.protocol.messages import Stop
from desktops.worker.__main__ import serve
from desktops.worker.config import Config
from desktops.worker.engine.base import Engine
from desktops.worker.engine.choose import open_engine
from desktops.worker.testing import TOKEN, ConsoleDouble
from runs.recipes.load import recipe_for

pytestmark = pytest.mark.desktop

TASKS = Path(runs.tasksets.__file__).parent / "deskyard_basics"
WAITING = [{"action": "wait", "seconds": 60, "window": "no such window", "optional": True}]


@pytest.fixture
async def console() -> AsyncIterator[ConsoleDouble]:
    async with ConsoleDouble() as console:
        yield console


@pytest.fixture
def basic_order(image: Callable[[str], str]) -> Callable[..., dict[str, Any]]:
    def make(task: str = "count-errors", **changes: Any) -> dict[str, Any]:
        recipe = recipe_for("deskyard-basics", task)
        assert recipe is not None
        return {
            "attempt_id": "at-1",
            "run_id": "r-1",
            "try_number": 1,
            "template": {"name": "basic", "version": 1, "digest": image("basic")},
            "task": json.loads((TASKS / f"{task}.json").read_text()),
            "recipe": [action.model_dump() for action in recipe],
            "max_steps": 15,
        } | changes

    return make


@asynccontextmanager
async def worker(console: ConsoleDouble, tmp_path: Path, address: str) -> AsyncIterator[Engine]:
    """A worker with an owner of its own on the tests' engine; leaves nothing behind."""
    home = tmp_path / "worker"
    watching = await asyncio.to_thread(open_engine, address, home)
    engine = await asyncio.to_thread(open_engine, address, home)
    stop = asyncio.Event()
    task = asyncio.create_task(
        serve(
            Config(console.url, TOKEN, "w", home, address, slots=None, warm=False), engine=engine, stop=stop
        )
    )
    try:
        yield watching
    finally:
        stop.set()
        await task
        assert await asyncio.to_thread(watching.list_owned) == []
        await asyncio.to_thread(watching.close)


async def test_a_recipe_solves_its_task(tmp_path, console, engine_address, basic_order):
    async with worker(console, tmp_path, engine_address):
        await console.offer("a", basic_order())
        ended = await console.ended("a", 120)
        assert ended["ok"], ended
        verdict = next(record for record in console.records("a") if record["kind"] == "verdict")
        assert verdict["reward"] == 1, verdict
        assert console.without_blob == []
        for record in console.records("a"):
            if "screenshot" in record:
                assert console.blobs[record["screenshot"]].startswith(b"\x89PNG")


async def test_a_task_may_begin_with_a_screen_that_never_rests(
    tmp_path, console, engine_address, basic_order
):
    order = basic_order(recipe=[{"action": "done"}])
    film = ["xfce4-terminal", "-x", "sh", "-c", "while :; do date +%N; sleep 0.02; done"]
    order["task"]["config"].append({"type": "launch", "parameters": {"command": film}})
    async with worker(console, tmp_path, engine_address):
        await console.offer("a", order)
        ended = await console.ended("a", 120)
        assert ended["ok"], ended


async def test_doing_nothing_is_an_honest_zero(tmp_path, console, engine_address, basic_order):
    async with worker(console, tmp_path, engine_address):
        await console.offer("a", basic_order(recipe=[{"action": "done"}]))
        ended = await console.ended("a", 120)
        assert ended["ok"], ended
        verdict = next(record for record in console.records("a") if record["kind"] == "verdict")
        assert verdict["reward"] == 0


async def test_a_desktop_killed_while_playing_is_lost(tmp_path, console, engine_address, basic_order):
    async with worker(console, tmp_path, engine_address) as engine:
        await console.offer("a", basic_order(recipe=WAITING))
        await console.until(lambda: "setup_done" in console.kinds("a"), 60)
        computer = console.records("a")[0]["computer"]
        desk = await asyncio.to_thread(engine.find, computer)
        assert desk is not None
        await asyncio.to_thread(engine.remove, desk)
        ended = await console.ended("a", 60)
        assert (ended["ok"], ended["invalid_reasons"]) == (False, ["desktop_lost"])
        assert console.kinds("a")[-2] == "computer_stopped"


async def test_a_cancelled_desktop_is_gone(tmp_path, console, engine_address, basic_order):
    async with worker(console, tmp_path, engine_address) as engine:
        await console.offer("a", basic_order(recipe=WAITING))
        await console.until(lambda: "setup_done" in console.kinds("a"), 60)
        await console.say(Stop(assignment="a", epoch=1, reason="cancelled_by_user"))
        ended = await console.ended("a", 60)
        assert ended["stopped"]
        assert await asyncio.to_thread(engine.list_owned) == []


async def test_a_desktop_is_ended_when_its_money_does(tmp_path, console, engine_address, basic_order):
    async with worker(console, tmp_path, engine_address):
        paid = datetime.now(UTC) + timedelta(seconds=12)
        await console.offer("a", basic_order(recipe=WAITING), seconds=12)
        ended = await console.ended("a", 60)
        assert ended["invalid_reasons"] == ["paid_until_reached"]
        for record in console.records("a"):
            if record["kind"] == "computer_stopped":
                # Aimed at three seconds before; a machine that is busy with other things may need some of them.
                assert datetime.fromisoformat(record["at"]) < paid + timedelta(seconds=3)
