"""Live copies of a desktop with Calc open against cold starts of the same; attempts of a task that is set up once.

Both sides do it two at a time. A copy counts when it answers and has been compared with its parent; a cold desktop
when Calc's window is there and its screen rests.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

from desktops.images.build import recipe_digest
from desktops.protocol.attempt import AttemptOrder
from desktops.worker.attempt import AttemptRun
from desktops.worker.attest import attest, compare
from desktops.worker.blobs import BlobStore
from desktops.worker.computer import Computer
from desktops.worker.engine.base import DeskSpec, EngineError, SavingEngine
from desktops.worker.spool import Spool
from desktops.worker.states import States

from .overhead import TimedRecorder
from .site import Site
from .table import Figure, Missing, Peer, Row, Samples

COPIES, AT_ONCE = 8, 2
GOAL_SECONDS = 3.0
TIMES, ROUNDS = 3, 5
TEMPLATE = "office"
CALC, TITLE = ["libreoffice", "--norestore", "--calc"], "LibreOffice Calc"
STATE, SET_UP = "prefix-bench", "setup-bench"
TASK = {
    "id": "look-at-calc",
    "instruction": "Do nothing.",
    "config": [{"type": "launch", "parameters": {"command": CALC}}],
    "evaluator": {"func": "infeasible"},
}


def measure(site: Site) -> list[Row]:
    what = f"{COPIES} live forks of a desktop with Calc open"
    if not isinstance(site.engine, SavingEngine):
        return [Missing(what, "live desktops cannot be saved on this machine")]
    image = f"sha256:{recipe_digest(TEMPLATE)}"
    if image not in {found.digest for found in site.engine.images()}:
        return [Missing(what, f"the {TEMPLATE} image of this tree is not on this machine")]
    states = States(site.engine, site.folder / "states")
    _all_at_once(lambda: _open_calc(site, image))  # fills the machine's file cache
    cold = Samples((_all_at_once(lambda: _open_calc(site, image)),))
    saving, found = _forks(site, states, image)
    whole, ready = (Samples(tuple(values)) for values in zip(*found, strict=True))
    rows: list[Row] = [
        Figure(what, "s", whole, Peer("as many cold starts", cold), GOAL_SECONDS),
        Figure("until all answer, before they are compared", "s", ready, part=True),
        Figure("saving their parent, once", "s", Samples((saving,)), part=True),
    ]
    return rows + _rounds(site, states, image)


def _forks(site: Site, states: States, image: str) -> tuple[float, list[tuple[float, float]]]:
    """Seconds of saving; and of each time, until all copies are compared, and until all answer."""
    with Computer(site.engine, DeskSpec(computer=str(uuid.uuid4()), image=image)) as parent:
        _wait_for_calc(parent)
        attestation, screen = attest(parent.guest, lambda data: hashlib.sha256(data).hexdigest())
        began = time.monotonic()
        states.save(parent, STATE, resume=False, screen=screen)
        saving = time.monotonic() - began

    def once() -> tuple[float, float]:
        ready: list[float] = []
        began = time.monotonic()

        def fork() -> Computer:
            spec = DeskSpec(computer=str(uuid.uuid4()), image=image, state=STATE)
            copy = Computer(site.engine, spec).start()
            ready.append(time.monotonic() - began)
            if differences := compare(copy.guest, attestation, screen).differences:
                copy.stop()
                raise EngineError(f"a copy is not like its parent: {'; '.join(differences)}")
            return copy

        return _all_at_once(fork), max(ready)

    try:
        once()  # the saved one is in the machine's file cache
        return saving, [once() for _ in range(TIMES)]
    finally:
        states.forget_now(STATE)


def _open_calc(site: Site, image: str) -> Computer:
    computer = Computer(site.engine, DeskSpec(computer=str(uuid.uuid4()), image=image)).start()
    _wait_for_calc(computer)
    return computer


def _wait_for_calc(computer: Computer) -> None:
    guest = computer.guest
    guest.launch(CALC)
    if guest.wait_window(TITLE, 60) is None or not guest.settle(quiet_ms=500, timeout_ms=15_000):
        computer.stop()
        raise EngineError("Calc did not open")


def _all_at_once(start: Callable[[], Computer]) -> float:
    """Seconds until the last of COPIES is there, AT_ONCE beginning at a time; all of them live until then."""
    with ExitStack() as held:
        began = time.monotonic()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            started = [pool.submit(start) for _ in range(COPIES)]
            for computer in started:
                held.callback(computer.result().stop)
        return time.monotonic() - began


def _rounds(site: Site, states: States, image: str) -> list[Row]:
    """Seconds of ROUNDS attempts of one task, one after another, setup saved or not."""
    spool, blobs = Spool(site.folder / "forks-spool"), BlobStore(site.folder / "forks-blobs")

    def attempts(setup_state: str) -> float:
        began = time.monotonic()
        for _ in range(ROUNDS):
            _attempt(site, states, image, spool, blobs, setup_state)
        return time.monotonic() - began

    try:
        _attempt(site, states, image, spool, blobs, "")  # imports what checks
        anew, once = Samples((attempts(""),)), Samples((attempts(SET_UP),))
    finally:
        states.forget_now(SET_UP)
        spool.close()
    peer = Peer("set up anew in each", anew)
    return [Figure(f"{ROUNDS} attempts on Calc, set up once and saved", "s", once, peer)]


def _attempt(
    site: Site, states: States, image: str, spool: Spool, blobs: BlobStore, setup_state: str
) -> None:
    name = str(uuid.uuid4())
    order = AttemptOrder.model_validate(
        {
            "attempt_id": name,
            "run_id": "bench",
            "try_number": 1,
            "template": {"name": TEMPLATE, "version": 1, "digest": image},
            "task": TASK,
            "recipe": [{"action": "done"}],
            "max_steps": 1,
            "setup_state": setup_state,
        }
    )
    recorder = TimedRecorder(spool, blobs, name)
    AttemptRun(
        order,
        engine=site.engine,
        engine_name="bench",
        states=states,
        recorder=recorder,
        paid_until=datetime.now(UTC) + timedelta(minutes=5),
    ).run()
    if "verdict" not in recorder.records:
        raise EngineError(f"no verdict: {getattr(recorder.records['attempt_ended'], 'detail', '')}")
