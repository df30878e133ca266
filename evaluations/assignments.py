"""The handler of the kind `rollout`: what workers report of rollouts on desktops."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Final

from django.utils import timezone

from console.doorbell import ring
from desktops.actions.states import keep_while
from desktops.handlers import BadRecord, register
from desktops.models import Assignment, Computer, State
from desktops.protocol import attempt as protocol
from desktops.protocol.attempt import record_adapter
from evaluations.actions import rollouts
from evaluations.actions.advance import ROLLOUT
from evaluations.models import Evaluation, Rollout, RolloutTry

NEEDS_COMPUTER: Final = protocol.ComputerReady | protocol.ComputerStopped | protocol.Forked


class RolloutHandler:
    begins_anew = True

    def lock(self, subject: uuid.UUID) -> None:
        """The evaluation's row: everything about one happens one after another."""
        Evaluation.objects.select_for_update(of=["self"], no_key=True).get(rollouts=subject)

    @contextmanager
    def batch(self, assignments: Collection[uuid.UUID]) -> Iterator[RolloutBatch]:
        tries = RolloutTry.objects.filter(assignment__in=assignments)
        rows = Evaluation.objects.select_for_update(of=["self"], no_key=True).select_related("workspace")
        of_tries = tries.order_by().values("rollout__evaluation")
        locked = {row.pk: row for row in rows.filter(pk__in=of_tries).order_by("pk")}
        found = {}
        for one in tries.select_related("rollout__batch"):
            one.rollout.evaluation = locked[one.rollout.evaluation_id]
            found[one.assignment_id] = one
        yield RolloutBatch(found)
        for evaluation in locked.values():
            ring(f"workspace.{evaluation.workspace.slug}")


class RolloutBatch:
    def __init__(self, tries: Mapping[uuid.UUID, RolloutTry]) -> None:
        self._tries = tries

    def record(
        self, assignment: Assignment, record: protocol.AttemptRecord, computer: Computer | None
    ) -> bool:
        one = self._tries[assignment.pk]
        evaluation = one.rollout.evaluation
        match record:
            case protocol.ComputerStarted():
                one.computer = computer
                one.save(update_fields=["computer"])
            case protocol.StepTaken():
                one.steps, one.screenshot = record.number, record.screenshot
                one.save(update_fields=["steps", "screenshot"])
            case protocol.TakenOver():
                one.invalid_reasons = ["human_intervened"]
                one.save(update_fields=["invalid_reasons"])
            case protocol.Verdict():
                rollouts.judged(one.rollout, record)
            case protocol.AttemptEnded():
                rollouts.end_try(
                    evaluation,
                    one,
                    at=record.at,
                    reasons=list(record.invalid_reasons) or ["worker_fault"],
                    detail=record.detail,
                    judge_error=record.checker_error,
                )
                return True
            case protocol.StateSaved():
                raise BadRecord("Nobody asked for that to be saved.")
            case _ if isinstance(record, NEEDS_COMPUTER) and computer is None:
                raise BadRecord("There is no such computer.")
        return False

    def lost(self, assignment: Assignment) -> None:
        one = self._tries[assignment.pk]
        detail = f"Worker {assignment.worker} went quiet."
        at = assignment.ended_at or timezone.now()
        rollouts.end_try(one.rollout.evaluation, one, at=at, reasons=["worker_lost"], detail=detail)

    def computer_settled(self, assignment: Assignment, computer: Computer, cost: Decimal) -> None:
        """The ledger has it; a rollout costs what its tries' computers do."""

    def computer_told_late(self, assignment: Assignment, computer: Computer) -> None:
        """It was this try's, whatever came after."""
        one = self._tries[assignment.pk]
        one.computer = computer
        one.save(update_fields=["computer"])


def wanted_by_rollouts(states: Collection[State]) -> dict[uuid.UUID, str]:
    """Of these, those that rollouts are yet to start from."""
    found = Rollout.objects.exclude(status__in=Rollout.TERMINAL).filter(batch__state__in=states)
    rows = found.values_list("batch__state", "evaluation__name").distinct()
    return {pk: f"evaluation {name}, whose rollouts start from it" for pk, name in rows}


keep_while(wanted_by_rollouts)
register(ROLLOUT, RolloutHandler(), record_adapter)
