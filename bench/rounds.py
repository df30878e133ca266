"""A run of five rounds on a task that opens Calc, with its setup saved once and with the setup played each time."""

from __future__ import annotations

import time

from desktops.worker.engine.base import EngineError

from .table import Figure, Missing, Peer, Row, Samples
from .whole import SET_UP_ANEW, SET_UP_ONCE, Whole, until

ROUNDS, COPIES = 5, 2


def measure(whole: Whole) -> list[Row]:
    what = f"a run of {ROUNDS} rounds × {COPIES} copies on Calc, set up once and saved"
    if "office" not in whole.templates:
        return [Missing(what, "the office image of this tree is not on this machine")]
    _once(
        whole, SET_UP_ANEW, rounds=1
    )  # fills the machine's file cache, and saves a ready desktop of the template
    anew, once = (Samples((_once(whole, task, ROUNDS),)) for task in (SET_UP_ANEW, SET_UP_ONCE))
    return [Figure(what, "s", once, Peer("set up anew in each", anew))]


def _once(whole: Whole, task: str, rounds: int) -> float:
    """Seconds from the call that makes the run until it has completed. Raises TimeoutError, EngineError."""
    began = time.monotonic()
    run = whole.start(task, "office", rounds=rounds, parallel_copies=COPIES)
    until(lambda: whole.status(run) == "completed", f"the end of a run of {rounds} rounds")
    took = time.monotonic() - began
    counts = whole.api.get(f"/v1/runs/{run}")["counts"]
    if counts["valid"] != rounds * COPIES:
        raise EngineError(f"not every attempt has a verdict: {counts}")
    return took
