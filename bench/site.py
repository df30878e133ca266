"""Where it is measured: an engine of this machine, the basic template, and desktops that go when they are done with."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from desktops.images.build import build, recipe_digest
from desktops.worker.engine.base import DeskSpec, Engine, Image, SavingEngine, warm_state
from desktops.worker.engine.choose import open_engine
from desktops.worker.engine.provision import client, ensure_engine
from desktops.worker.states import States
from desktops.worker.warm import Warmer

TEMPLATE = "basic"
FEWEST = 3

T = TypeVar("T")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Site:
    """`folder` is for files of one bench only; `address` is what a worker's --engine takes."""

    engine: Engine
    address: str
    image: Image
    folder: Path

    def spec(self) -> DeskSpec:
        return DeskSpec(computer=str(uuid.uuid4()), image=self.image.digest)


@contextlib.contextmanager
def site(home: Path, folder: Path, progress: Progress) -> Iterator[Site]:
    """The engine of DESKYARD_ENGINE, else the one `make up` would take. Nothing that it started stays.

    Raises EngineError, ProvisionError or BuildFailed.
    """
    with contextlib.ExitStack() as held:
        address = os.environ.get("DESKYARD_ENGINE", "")
        if not address:
            ensured = ensure_engine(home, progress)
            held.callback(ensured.stop)
            address = ensured.address
        engine = open_engine(address, folder / "owner")
        held.callback(engine.close)
        held.callback(engine.sweep, [])
        if not _images(engine):
            with contextlib.closing(client(address)) as builder:
                build(builder, TEMPLATE, progress)
        yield Site(engine, address, _images(engine)[-1], folder)


def keep_warm(site: Site) -> bool:
    """Have a saved desktop to start from, as a worker does; False where this machine can save none."""
    if not isinstance(site.engine, SavingEngine):
        return False
    Warmer(site.engine, States(site.engine, site.folder / "states"), threading.Event()).keep_up(
        [site.image.digest]
    )
    return warm_state(site.image.digest) in {state.name for state in site.engine.states()}


def repeat(measure: Callable[[], T], times: int, seconds: float) -> list[T]:
    """`measure` so many times, fewer when `seconds` are over, at least FEWEST times."""
    end = time.monotonic() + seconds
    found: list[T] = []
    while len(found) < FEWEST or (len(found) < times and time.monotonic() < end):
        found.append(measure())
    return found


def _images(engine: Engine) -> list[Image]:
    """This tree's own: an engine may have older ones, and others'."""
    wanted = f"sha256:{recipe_digest(TEMPLATE)}"
    return [image for image in engine.images() if image.digest == wanted]
