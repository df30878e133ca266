"""The whole worker on real desktops: one is opened, changed and saved, and others start from what came of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from functools import partial
from typing import Any

import pytest
from docker.errors import DockerException

from desktops.protocol import messages
from desktops.worker import holding
from desktops.worker.computer import Computer
from desktops.worker.engine.base import Engine, ImagingEngine, SavingEngine
from desktops.worker.engine.provision import client
from desktops.worker.guest_client import Guest
from desktops.worker.testing import ConsoleDouble

from .test_real_desktop import worker

pytestmark = pytest.mark.desktop
NAME = "made-in-a-test"


@pytest.fixture
async def console() -> AsyncIterator[ConsoleDouble]:
    async with ConsoleDouble() as console:
        yield console


@pytest.fixture
def template(image) -> dict[str, Any]:
    return {"name": "basic", "version": 1, "digest": image("basic")}


@pytest.fixture
def made_images(engine_address):
    """Whatever was made of desktops goes again."""
    yield
    with closing(client(engine_address)) as engine, suppress(DockerException):
        engine.images.remove(f"localhost/deskyard/{NAME}:1", force=True)


async def opened(console: ConsoleDouble, engine: Engine, name: str, order: dict[str, Any]) -> Guest:
    await console.offer(name, {"hold_id": name} | order, kind="computer")
    await console.until(lambda: {"computer_ready", "hold_ended"} & set(console.kinds(name)), seconds=120)
    started = console.records(name)[0]
    assert started["kind"] == "computer_started", started
    desk = await asyncio.to_thread(engine.find, started["computer"])
    assert desk is not None
    return Guest(desk.connect)


async def asked(console: ConsoleDouble, name: str, do: Any) -> dict[str, Any]:
    await console.say(messages.Ask(ask=f"of-{name}", assignment=name, epoch=1, do=do))
    await console.until(lambda: "answered" in console.kinds(name), seconds=240)
    return console.records(name)[-1]


async def closed(console: ConsoleDouble, name: str) -> None:
    await console.say(messages.Stop(assignment=name, epoch=1, kind="computer", reason="closed_by_user"))
    await console.until(lambda: "hold_ended" in console.kinds(name), seconds=60)


async def run(guest: Guest, command: str) -> str:
    done = await asyncio.to_thread(guest.run, command)
    guest.disconnect()  # a connection of the test's own would be in the way of saving
    return str(done.stdout).strip()


async def made(engine: Engine) -> set[str]:
    """Digests of the images that are there of this name."""
    return {image.digest for image in await asyncio.to_thread(engine.images) if image.name == NAME}


def last_named(console: ConsoleDouble) -> set[str]:
    """Digests of the images that the worker has, by its own word."""
    return {image.digest for image in console.heartbeats[-1].images}


async def test_an_image_of_a_changed_desktop_starts_desktops_that_are_changed_alike(
    tmp_path, console, engine_address, template, made_images
):
    async with worker(console, tmp_path, engine_address) as engine:
        if not isinstance(engine, ImagingEngine):
            pytest.skip("this engine makes no images of desktops")
        guest = await opened(console, engine, "first", {"template": template})
        await run(guest, "echo kept > ~/Desktop/kept.txt; rm -r ~/.config/xfce4; echo gone > /tmp/gone.txt")
        answer = await asked(console, "first", messages.MakeImage(template=NAME, version=1))
        assert answer["error"] == ""
        assert (answer["image"]["name"], answer["image"]["version"]) == (NAME, 1)
        assert await run(guest, "cat ~/Desktop/kept.txt") == "kept", "it goes on"
        await closed(console, "first")
        guest = await opened(console, engine, "second", {"template": answer["image"]})
        assert (
            await run(guest, "cat ~/Desktop/kept.txt; ls ~/.config/xfce4 /tmp/gone.txt 2> /dev/null")
            == "kept"
        )
        assert await run(guest, "stat -c %U:%a ~/Desktop/kept.txt") == "user:644"
        await closed(console, "second")
        digest = answer["image"]["digest"]
        await console.until(lambda: digest in last_named(console), seconds=60)
        await console.say(messages.ForgetImage(digest=digest))
        await console.until(lambda: digest not in last_named(console), seconds=60)
        assert template["digest"] in last_named(console)
        assert digest not in await made(engine)


async def test_no_image_is_kept_of_a_desktop_whose_like_would_never_be_ready(
    tmp_path, console, engine_address, template, made_images, monkeypatch
):
    monkeypatch.setattr(holding, "Computer", partial(Computer, start_seconds=15))
    async with worker(console, tmp_path, engine_address) as engine:
        if not isinstance(engine, ImagingEngine):
            pytest.skip("this engine makes no images of desktops")
        before = await made(engine)
        guest = await opened(console, engine, "first", {"template": template})
        await run(guest, "rm -r ~/.config/tint2")
        answer = await asked(console, "first", messages.MakeImage(template=NAME, version=1))
        assert "does not get ready: the desktop was not ready after" in answer["error"]
        assert ": not there yet: wallpaper" in answer["error"]
        assert await made(engine) == before
        assert await run(guest, "echo on") == "on", "it goes on"
        await closed(console, "first")


async def test_a_saved_desktop_starts_others_with_what_was_open_in_it(
    tmp_path, console, engine_address, template
):
    async with worker(console, tmp_path, engine_address) as engine:
        if not isinstance(engine, SavingEngine):
            pytest.skip("this engine saves no live desktops")
        guest = await opened(console, engine, "first", {"template": template})
        await run(guest, "echo kept > /tmp/kept.txt; pkill tint2; setsid sleep 3333 > /dev/null 2>&1 &")
        answer = await asked(console, "first", messages.Save(name="saved-1"))
        assert answer["error"] == ""
        assert await run(guest, "pgrep -c -f 'sleep 3333'") == "1", "it goes on"
        guest = await opened(console, engine, "second", {"template": template, "state": "saved-1"})
        assert await run(guest, "cat /tmp/kept.txt; pgrep -c -f 'sleep 3333'") == "kept\n1"
        for name in ("first", "second"):
            await closed(console, name)
        engine.forget("saved-1")
