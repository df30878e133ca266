"""Plays what the copies of a run have in common, once, and saves the desktop that they are forked from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from desktops.protocol import attempt as records
from desktops.protocol.actions import Done, Fail

from .attest import attest
from .faults import Fault, Phase
from .session import Session, now
from .task import parse


class PrefixRun(Session):
    """One try of one prefix.

    1. A desktop with the task's setup.
    2. Every action of the recipe, each recorded as a step.
    3. Once the desktop rests: what it is like, then save it, which ends it.
    """

    def __init__(self, order: records.PrefixOrder, **surroundings: Any) -> None:
        super().__init__(order, **surroundings)
        self._order = order
        self._saved = False

    def __str__(self) -> str:
        return f"prefix {self._order.prefix_id}"

    def _play(self, folder: Path) -> None:
        computer, _ = self._begin(parse(self._order.task), folder)
        self._phase = Phase.PLAYING
        for number, action in enumerate(self._order.recipe, 1):
            self._step(computer.guest, action, number, prefix=True)
            if isinstance(action, Done | Fail):
                break
        self._check_hurry()
        self._phase = Phase.SAVING
        self._check_ending()
        attestation, screen = attest(computer.guest, self._recorder.keep)
        began = time.monotonic()
        saved = self._states.save(computer, self._order.state, resume=False, files=folder, screen=screen)
        self._record_saved(computer, saved, began, attestation)
        self._saved = True

    def _last_record(self, fault: Fault | None, *, detail: str, stopped: bool) -> records.PrefixEnded:
        return records.PrefixEnded(
            at=now(),
            ok=self._saved,
            invalid_reasons=[fault.reason] if fault and fault.reason and not self._saved else [],
            detail=detail,
            stopped=stopped,
        )
