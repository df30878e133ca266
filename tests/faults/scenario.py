"""A scenario: what is done to a rig, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .invariants import check
from .rig import Lab, Rig

END_SECONDS = 300


class Played:
    """What came of one: its lab, its run, and whatever else it saw. Made when the run is about to end by itself; its
    workers are ended then, and the invariants hold."""

    def __init__(self, lab: Lab, run: str, **seen: Any) -> None:
        self.lab, self.run, self.seen = lab, run, seen
        self.end = lab.await_end(run, END_SECONDS)
        for worker in lab.workers:
            worker.program.end()
        self.detail = lab.rig.value("SELECT stop_detail FROM runs_run WHERE id = %s", run)
        self.attempts = lab.attempts(run)
        self.tries = lab.tries(run)
        self.statuses = lab.statuses(run)
        check(lab)

    @property
    def columns(self) -> list[tuple[str, str, str | None]]:
        """(status, verifier, outcome) of each attempt."""
        return [(row["status"], row["verifier"], row["outcome"]) for row in self.attempts]

    @property
    def all_solved(self) -> bool:
        return set(self.columns) == {("done", "valid", "success")}

    @property
    def why(self) -> list[list[str]]:
        """The invalid reasons of each try, in order."""
        return [row["invalid_reasons"] for row in self.tries]


@dataclass(frozen=True)
class Scenario:
    """`seconds` is about how long it takes; `template` is what its desktops are made of."""

    seconds: int
    play: Callable[[Rig], Any]
    template: str = "basic"
