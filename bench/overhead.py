"""What one attempt costs beyond its apps and its model: a real attempt of a task on which nothing is done.

The peer is what OSWorld sleeps in every task, whatever the machine: `run_single_example` of its lib_run_single.py
(github.com/xlang-ai/OSWorld) waits 60 s after `env.reset` ("wait for the environment to be ready") and 20 s before
`env.evaluate` ("wait for the environment to settle"). Starting its machine comes on top there and is not in the 80 s,
but the start of our desktop is in our figure, and the goal is set on it; the line below leaves it out as they do.
The desktop starts as a worker starts it: from a saved one, where this machine can save one.
"""

from __future__ import annotations

import logging
import time
import uuid
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from desktops.protocol.attempt import AttemptOrder
from desktops.worker.attempt import AttemptRun
from desktops.worker.blobs import BlobStore
from desktops.worker.recorder import Record, Recorder
from desktops.worker.spool import Spool
from desktops.worker.states import States

from .site import Site, keep_warm, repeat
from .table import Figure, Missing, Peer, Row, Samples

OSWORLD_WAITS_SECONDS = 60.0 + 20.0
GOAL_SECONDS = 1.0
TIMES, SECONDS = 7, 35.0
TASK = {
    "id": "do-nothing",
    "instruction": "Do nothing.",
    "config": [],
    "evaluator": {
        "func": "exact_match",
        "result": {"type": "vm_command_line", "command": ["hostname"]},
        "expected": {"type": "rule", "rules": {"expected": "nothing of the kind"}},
    },
}
# Which record ends which part.
PARTS = {
    "computer_started": "create: the container runs",
    "computer_ready": "ready: until screen, session and agent answer",
    "setup_done": "setup: gates, the screen at rest, first screenshot",
    "step": "step: one action that does nothing",
    "verdict": "verify",
    "computer_stopped": "stop: until the container is gone",
    "attempt_ended": "last record",
}


STARTING = ("computer_started", "computer_ready")


class TimedRecorder(Recorder):
    """Remembers when each record was on disk."""

    def __init__(self, spool: Spool, blobs: BlobStore, assignment: str) -> None:
        super().__init__(spool, blobs, assignment=assignment, epoch=1)
        self.moments: list[tuple[str, float]] = []
        self.records: dict[str, Record] = {}

    def record(self, record: Record, *, blobs: list[str] | None = None) -> int:
        number = super().record(record, blobs=blobs)
        self.moments.append((record.kind, time.monotonic()))
        self.records[record.kind] = record
        return number


def measure(site: Site) -> list[Row]:
    spool = Spool(site.folder / "spool")
    blobs = BlobStore(site.folder / "blobs")
    keep_warm(site)
    try:
        _attempt(site, spool, blobs)  # imports what checks; a worker does that once, not in each attempt
        found = repeat(lambda: _attempt(site, spool, blobs), TIMES, SECONDS)
    finally:
        spool.close()
    what = "overhead of one attempt, apps and model excluded"
    if not all(found):
        return [Missing(what, "an attempt got no verdict; its reason is above")]
    whole = Samples(tuple(sum(parts.values()) for parts in found))
    started = Samples(tuple(sum(s for kind, s in parts.items() if kind not in STARTING) for parts in found))
    limit = Peer("OSWorld's fixed waits", Samples((OSWORLD_WAITS_SECONDS,)))
    rows: list[Row] = [
        Figure(what, "s", whole, limit, GOAL_SECONDS),
        Figure("the same from a desktop that is ready", "s", started, limit, part=True),
    ]
    for kind, name in PARTS.items():
        rows.append(Figure(name, "s", Samples(tuple(parts[kind] for parts in found)), part=True))
    return rows


def _attempt(site: Site, spool: Spool, blobs: BlobStore) -> dict[str, float]:
    """Seconds of each part, by the kind of the record that ends it; empty when there was no verdict."""
    name = str(uuid.uuid4())
    recorder = TimedRecorder(spool, blobs, name)
    order = AttemptOrder.model_validate(
        {
            "attempt_id": name,
            "run_id": "bench",
            "try_number": 1,
            "template": {"name": site.image.name, "version": site.image.version, "digest": site.image.digest},
            "task": TASK,
            "recipe": [{"action": "done"}],
            "max_steps": 1,
        }
    )
    attempt = AttemptRun(
        order,
        engine=site.engine,
        engine_name=site.engine.probe().name,
        states=States(site.engine, site.folder / "states"),
        recorder=recorder,
        paid_until=datetime.now(UTC) + timedelta(minutes=5),
    )
    began = time.monotonic()
    attempt.run()
    ended = recorder.records["attempt_ended"]
    if "verdict" not in recorder.records:
        logging.getLogger("bench").error("no verdict: %s", getattr(ended, "detail", ""))
        return {}
    moments = [("", began), *(moment for moment in recorder.moments if moment[0] in PARTS)]
    return {kind: late - early for (_, early), (kind, late) in pairwise(moments)}
