"""The handler of kind `computer`: what workers report of the computers that somebody has opened."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Final

from django.utils import timezone

from .actions import asks, holds, states
from .handlers import BadRecord, register
from .models import Ask, Assignment, Computer, Hold
from .protocol import attempt as protocol
from .protocol.attempt import InvalidReason
from .protocol.hold import Answered, HoldEnded, HoldRecord, hold_adapter

Reason = Hold.Reason
# Why the desktop ended by itself, in the words of a computer; whatever else breaks is the worker's.
REASONS: Final[dict[InvalidReason, Reason]] = {
    "desktop_start_failed": Reason.START_FAILED,
    "not_ready": Reason.START_FAILED,
    "desktop_lost": Reason.DESKTOP_LOST,
    "guest_unreachable": Reason.DESKTOP_LOST,
    "worker_lost": Reason.WORKER_LOST,
    "worker_stopped": Reason.WORKER_LOST,
}


class HoldHandler:
    begins_anew = False  # what somebody did on the desktop is nowhere else

    def lock(self, subject: uuid.UUID) -> None:
        holds.locked(subject)

    @contextmanager
    def batch(self, assignments: Collection[uuid.UUID]) -> Iterator[HoldBatch]:
        yield HoldBatch({hold.assignment_id: hold for hold in holds.locked_of(assignments)})


class HoldBatch:
    def __init__(self, rows: dict[uuid.UUID | None, Hold]) -> None:
        self._holds = rows

    def record(self, assignment: Assignment, record: HoldRecord, computer: Computer | None) -> bool:
        hold = self._holds[assignment.pk]
        match record:
            case protocol.ComputerStarted():
                holds.started(hold, computer)
            case protocol.ComputerReady():
                holds.ready(hold)
            case protocol.ComputerStopped():
                if computer is None:
                    raise BadRecord("There is no such computer.")
            case protocol.StateSaved():
                ask = next((ask for ask in hold.asks.all() if ask.state_name == record.name), None)
                if ask is None:
                    raise BadRecord("Nobody asked for that to be saved.")
                saved = states.state_saved(
                    assignment, hold.computer, record, label=ask.label, keep_days=ask.keep_days
                )
                holds.seen(hold, saved.screenshot)
            case Answered():
                asks.answered(hold, self._ask(hold, record.ask), record)
            case HoldEnded():
                self._ended(hold, record)
                return True
        return False

    def lost(self, assignment: Assignment) -> None:
        hold = self._holds[assignment.pk]
        detail = f"Worker {assignment.worker} went quiet."
        holds.end(hold, at=timezone.now(), reason=Reason.WORKER_LOST, detail=detail)

    def computer_settled(self, assignment: Assignment, computer: Computer, cost: Decimal) -> None:
        """The computer's own row and the ledger have it all."""

    def computer_told_late(self, assignment: Assignment, computer: Computer) -> None:
        """The same."""

    def _ask(self, hold: Hold, said: str) -> Ask:
        ask = next((ask for ask in hold.asks.all() if str(ask.pk) == said), None)
        if ask is None or ask.status != Ask.Status.ASKED:
            raise BadRecord("Nobody waits for that answer.")
        return ask

    def _ended(self, hold: Hold, record: HoldEnded) -> None:
        said = record.invalid_reasons
        if "paid_until_reached" in said and not hold.stop_reason:
            reason, detail = holds.out_of_money(hold)
        else:
            named = [REASONS[one] for one in said if one in REASONS]
            reason = (named or [Reason.WORKER_FAULT])[0]
            detail = "" if record.stopped else record.detail  # that it was told to is known already
        holds.end(hold, at=timezone.now(), reason=reason, detail=detail)


register("computer", HoldHandler(), hold_adapter)
