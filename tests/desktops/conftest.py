"""Real desktops for tests: an engine from DESKYARD_ENGINE or DOCKER_HOST, else one brought up for the tests."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from desktops.images import build
from desktops.worker.computer import Computer
from desktops.worker.engine.base import DeskSpec, Engine
from desktops.worker.engine.choose import open_engine
from desktops.worker.engine.provision import client, ensure_engine
from desktops.worker.guest_client import Guest

StartComputer = Callable[..., Computer]


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


@pytest.fixture(scope="session")
def engine_address() -> Iterator[str]:
    given = os.environ.get("DESKYARD_ENGINE", "")
    if given and given != "auto":
        yield given
        return
    home = Path(os.environ.get("DESKYARD_HOME", "") or ".deskyard").absolute()
    found = ensure_engine(home, _say)
    for reason in found.passed_over:
        _say(f"not used: {reason}")
    try:
        yield found.address
    finally:
        found.stop()


@pytest.fixture(scope="session")
def engine(engine_address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine with an owner of its own; whatever tests leave on it goes at the end."""
    made = open_engine(engine_address, tmp_path_factory.mktemp("engine"))
    try:
        yield made
    finally:
        made.sweep([])
        made.close()


@pytest.fixture(scope="session")
def image(engine_address: str) -> Callable[[str], str]:
    """Digest of a template, built where it is missing."""

    def find(name: str) -> str:
        with closing(client(engine_address)) as builder:
            return build.build(builder, name, _say)

    return find


@pytest.fixture
def start_computer(engine: Engine, image: Callable[[str], str]) -> Iterator[StartComputer]:
    """Start a desktop of a template; it is gone at the end of the test."""
    with ExitStack() as stack:

        def start(template: str = "basic", **spec: object) -> Computer:
            made = DeskSpec(computer=str(uuid.uuid4()), image=image(template), **spec)  # type: ignore[arg-type]
            return stack.enter_context(Computer(engine, made))

        yield start


@pytest.fixture(scope="module")
def basic(engine: Engine, image: Callable[[str], str]) -> Iterator[Computer]:
    """One basic desktop for the tests of a module, which leave it as they found it: see `guest`."""
    with Computer(engine, DeskSpec(computer=str(uuid.uuid4()), image=image("basic"))) as computer:
        yield computer


@pytest.fixture
def guest(basic: Computer) -> Iterator[Guest]:
    """The module's desktop; its windows are closed and its desktop folder emptied after each test."""
    yield basic.guest
    # Until they are gone: one that is ending would still take the next one's file, and show no window for it.
    basic.guest.run(
        "for i in $(seq 100); do pkill -x 'mousepad|xfce4-terminal' || break; sleep 0.05; done;"
        " rm -rf ~/Desktop/* ~/scratch"
    )
    end_windows(basic.guest)


def end_windows(guest: Guest) -> None:
    for _ in range(200):
        if not guest.windows():
            return
        guest.settle(20, 200)
    raise AssertionError(f"windows stay open: {guest.windows()}")
