"""From the call that makes a desktop until it is ready, and how far into that each part of it answers."""

from __future__ import annotations

import time

from desktops.protocol.attempt import TemplatePin
from desktops.worker.engine.base import EngineError, SavingEngine, warm_state
from desktops.worker.engine.docker import DockerEngine
from desktops.worker.engine.runc.engine import RuncEngine
from desktops.worker.guest_client import Guest, GuestUnreachable
from desktops.worker.ready import Ready
from desktops.worker.states import States

from .site import Site, keep_warm, repeat
from .table import Figure, Missing, Peer, Row, Samples

TIMES, SECONDS = 5, 20.0
GOAL_SECONDS = 0.5  # from a saved desktop
PATIENCE_SECONDS = 60.0
PROBE_SECONDS = 0.02
PARTS = {
    "container": "the container runs, after",
    "agent": "its agent answers, after",
    "screen": "the X server answers, after",
    "screenshot": "first screenshot, after",
    "window_manager": "the window manager is there, after",
    "bus": "the message bus is there, after",
    "wallpaper": "wallpaper and panel are drawn, after",
}


def measure(site: Site) -> list[Row]:
    if isinstance(site.engine, SavingEngine):
        site.engine.forget(warm_state(site.image.digest))
    _start(site)  # fills the machine's file cache
    found = repeat(lambda: _start(site), TIMES, SECONDS)
    bare = _bare(site)
    peer = Peer("bare container that runs `true`", bare) if bare else None
    ready = Samples(tuple(moments["ready"] for moments in found))
    rows: list[Row] = [Figure("time to a ready desktop, cold", "s", ready, peer)]
    for name, words in PARTS.items():
        rows.append(Figure(words, "s", Samples(tuple(moments[name] for moments in found)), part=True))
    return rows + _saved(site, ready)


def _saved(site: Site, cold: Samples) -> list[Row]:
    what = "desktop from a saved one"
    if not keep_warm(site):
        return [Missing(what, "live desktops cannot be saved on this machine")]
    _start(site)  # the saved one is in the machine's file cache
    found = repeat(lambda: _start(site)["ready"], TIMES, SECONDS)
    return [
        Figure(what, "s", Samples(tuple(found)), Peer("cold start", cold), GOAL_SECONDS),
        Figure("desktop that stood ready", "s", _standing(site), Peer("cold start", cold), GOAL_SECONDS),
    ]


def _standing(site: Site) -> Samples:
    """Seconds from asking for a desktop that was made ahead until it is somebody's and answers."""
    image = site.image
    ready = Ready(site.engine, States(site.engine, site.folder / "states"), site.folder, most=1)
    template = TemplatePin(name=image.name, version=image.version, digest=image.digest)

    def once() -> float:
        with ready.take(template):
            pass  # from now on one is wanted
        ready.keep_up([image.digest])
        began = time.monotonic()
        with ready.take(template) as computer:
            if computer is None:
                raise EngineError("no desktop stood ready")
            computer.hand_over(None)
        computer.wait_ready()
        took = time.monotonic() - began
        computer.stop()
        return took

    try:
        return Samples(tuple(repeat(once, TIMES, SECONDS)))
    finally:
        ready.close()


class _Marks:
    """When each thing was first seen, in seconds since this was made."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.seconds: dict[str, float] = {}

    def mark(self, name: str) -> None:
        self.seconds.setdefault(name, self.passed)

    @property
    def passed(self) -> float:
        return time.monotonic() - self._began


def _start(site: Site) -> dict[str, float]:
    """Seconds from the call until each part of PARTS, and `ready`. Raises EngineError when it never is."""
    marks = _Marks()
    desk = site.engine.create(site.spec())
    marks.mark("container")
    guest = Guest(desk.connect)
    try:
        while marks.passed < PATIENCE_SECONDS:
            if _ready(guest, marks):
                return marks.seconds
            time.sleep(PROBE_SECONDS)
        raise EngineError(f"a desktop was not ready in {PATIENCE_SECONDS:g} s")
    finally:
        guest.disconnect()
        site.engine.remove(desk)


def _ready(guest: Guest, marks: _Marks) -> bool:
    """Ask once, and mark what is there."""
    try:
        readiness = guest.ready()
    except GuestUnreachable:
        return False
    marks.mark("agent")
    for name in ("screen", "window_manager", "bus", "wallpaper"):
        if getattr(readiness, name):
            marks.mark(name)
    if readiness.ready:
        marks.mark("ready")
    if readiness.screen and "screenshot" not in marks.seconds:
        guest.screenshot()
        marks.mark("screenshot")
    return readiness.ready


def _bare(site: Site) -> Samples | None:
    """Create, run and see the end of a container of the same image; None where there are no containers."""
    engine = site.engine
    if not isinstance(engine, DockerEngine | RuncEngine):
        return None

    def once() -> float:
        began = time.monotonic()
        desk = engine.create(site.spec(), command=["/bin/true"])
        try:
            while desk.state() == "running":
                time.sleep(PROBE_SECONDS / 4)
            return time.monotonic() - began
        finally:
            engine.remove(desk)

    return Samples(tuple(repeat(once, TIMES, SECONDS / 2)))
