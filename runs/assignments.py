"""The handler of kind `attempt`: what a worker reports of one becomes rows, counters and events."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from decimal import Decimal

from desktops.handlers import BadRecord, register
from desktops.models import Assignment, Computer
from desktops.protocol import attempt as protocol
from runs import events
from runs.actions import attempts
from runs.models import Attempt, AttemptTry, Run
from runs.pending import Pending, write

KIND = "attempt"


class AttemptHandler:
    def lock(self, subject: uuid.UUID) -> None:
        """The run's row: everything about one run happens one after another."""
        Run.objects.select_for_update(of=["self"], no_key=True).get(attempts=subject)

    @contextmanager
    def batch(self, assignments: Collection[uuid.UUID]) -> Iterator[AttemptBatch]:
        """One copy of each run, attempt and try in memory; what has changed is written at the end."""
        asked = AttemptTry.objects.filter(assignment__in=assignments)
        locked = Run.objects.select_for_update(of=["self"], no_key=True).select_related("workspace")
        runs = {run.pk: run for run in locked.filter(pk__in=asked.values("attempt__run")).order_by("pk")}
        tries = list(asked.select_related("attempt").order_by("pk"))
        known: dict[uuid.UUID, Attempt] = {}
        for one in tries:
            # Several tries of one attempt may be in a batch: an old one's late word, and the present one's.
            attempt = known.setdefault(one.attempt_id, one.attempt)
            attempt.run, one.attempt = runs[attempt.run_id], attempt
        for run in runs.values():
            run.pending = Pending()
        yield AttemptBatch({one.assignment_id: one for one in tries})
        for run in runs.values():
            pending, run.pending = run.pending, None
            if pending is not None:
                pending.flush()


class AttemptBatch:
    def __init__(self, tries: dict[uuid.UUID, AttemptTry]) -> None:
        self._tries = tries

    def _of(self, assignment: Assignment) -> tuple[Run, Attempt, AttemptTry]:
        one = self._tries[assignment.pk]
        return one.attempt.run, one.attempt, one

    def record(
        self, assignment: Assignment, record: protocol.AttemptRecord, computer: Computer | None
    ) -> bool:
        run, attempt, one = self._of(assignment)
        match record:
            case protocol.ComputerStarted():
                assert computer is not None
                attempts.on_computer(run, attempt, one, computer)
                said = events.ComputerStarted(computer=computer.label, worker=computer.worker.name)
                events.append(run, said, attempt=attempt, at=record.at)
            case protocol.ComputerReady():
                if computer is None:
                    raise BadRecord("There is no such computer.")
                ready = events.ComputerReady(computer=computer.label, seconds=record.seconds)
                events.append(run, ready, attempt=attempt, at=record.at)
            case protocol.ComputerStopped():
                if computer is None:
                    raise BadRecord("There is no such computer.")
            case protocol.SetupDone():
                one.setup_seconds, one.setup_screenshot = record.seconds, record.screenshot
                write(run, one, "setup_seconds", "setup_screenshot")
                _seen(run, one, record.screenshot)
                done = events.SetupDone(seconds=record.seconds, steps=record.steps)
                events.append(run, done, attempt=attempt, at=record.at)
            case protocol.StepTaken():
                _step(run, attempt, one, record)
            case protocol.TakenOver():
                label = attempt.computer.label if attempt.computer else ""
                attempts.on_taken_over(run, attempt, one, computer=label, by=record.by, at=record.at)
            case protocol.Verifying():
                attempts.change(run, attempt, status=Attempt.Status.VERIFYING)
                events.append(run, events.AttemptVerifying(), attempt=attempt, at=record.at)
            case protocol.Verdict():
                _verdict(run, attempt, one, record)
            case protocol.AttemptEnded():
                _ended(run, attempt, one, record)
                _supervisor(run)
                return True
        return False

    def lost(self, assignment: Assignment) -> None:
        run, attempt, one = self._of(assignment)
        if one.verdict is not None:
            one.ok, one.ended_at = True, assignment.ended_at
            one.detail = "The worker was lost after the verdict."
            write(run, one, "ok", "ended_at", "detail")
            attempts.end_attempt(run, attempt, status=Attempt.Status.DONE)
        elif run.stop_reason:
            one.ok, one.ended_at = False, assignment.ended_at
            one.detail = "The worker was lost while the run was stopping."
            write(run, one, "ok", "ended_at", "detail")
            attempts.end_attempt(run, attempt, status=Attempt.Status.CANCELLED)
        else:
            detail = f"Worker {assignment.worker} went quiet."
            attempts.fail_try(run, attempt, one, reasons=["worker_lost"], detail=detail, checker_error="")
        _supervisor(run)

    def computer_settled(self, assignment: Assignment, computer: Computer, cost: Decimal) -> None:
        run, attempt, _ = self._of(assignment)
        assert computer.stopped_at is not None
        said = events.ComputerStopped(
            computer=computer.label,
            reason=computer.stop_reason,
            seconds=round((computer.stopped_at - computer.started_at).total_seconds(), 3),
            cost_usd=str(cost),
        )
        events.append(run, said, attempt=attempt, at=computer.stopped_at)


def _pending(run: Run) -> Pending:
    assert run.pending is not None, "records are applied in a batch"
    return run.pending


def _supervisor(run: Run) -> None:
    _pending(run).bells["supervisor"] = None


def _seen(run: Run, one: AttemptTry, screenshot: str) -> None:
    if one.computer_id is not None:
        _pending(run).screens[one.computer_id] = screenshot


def _step(run: Run, attempt: Attempt, one: AttemptTry, item: protocol.StepTaken) -> None:
    step = {
        "attempt_try_id": one.pk,
        "number": item.number,
        "at": item.at,
        "action": item.action.model_dump(exclude_defaults=True) | {"action": item.action.action},
        "prefix": item.prefix,
        "policy_ms": item.policy_ms,
        "act_ms": item.act_ms,
        "settle_ms": item.settle_ms,
        "grab_ms": item.grab_ms,
        "settled": item.settled,
        "screenshot": item.screenshot,
        "active_window": item.active_window[:300],
        "error": item.error,
    }
    _pending(run).steps.append(step)
    attempt.steps = item.number
    write(run, attempt, "steps")
    _seen(run, one, item.screenshot)
    said = events.StepTaken(
        step=item.number,
        action=item.action.action,
        took_ms=round(item.policy_ms + item.act_ms + item.settle_ms + item.grab_ms),
        screenshot=item.screenshot,
    )
    events.append(run, said, attempt=attempt, at=item.at)


def _verdict(run: Run, attempt: Attempt, one: AttemptTry, item: protocol.Verdict) -> None:
    one.reward, one.verdict = item.reward, item.model_dump(mode="json")
    write(run, one, "reward", "verdict")
    attempts.change(run, attempt, verifier=Attempt.Verifier.VALID, reward=item.reward)
    outcome = "success" if item.reward >= 1.0 else "fail"
    said = events.AttemptVerdict(reward=item.reward, outcome=outcome)  # type: ignore[arg-type]
    events.append(run, said, attempt=attempt, at=item.at)


def _ended(run: Run, attempt: Attempt, one: AttemptTry, item: protocol.AttemptEnded) -> None:
    if one.verdict is not None:  # a verdict that was reached stands, whatever broke after it
        one.ok, one.ended_at, one.detail = True, item.at, item.detail
        write(run, one, "ok", "ended_at", "detail")
        attempts.end_attempt(run, attempt, status=Attempt.Status.DONE, at=item.at)
    elif item.stopped and run.stop_reason:
        one.ok, one.ended_at, one.detail = False, item.at, item.detail
        write(run, one, "ok", "ended_at", "detail")
        attempts.end_attempt(run, attempt, status=Attempt.Status.CANCELLED, at=item.at)
    else:
        attempts.fail_try(
            run,
            attempt,
            one,
            reasons=list(item.invalid_reasons) or ["worker_fault"],
            detail=item.detail,
            checker_error=item.checker_error,
            at=item.at,
        )


register(KIND, AttemptHandler(), protocol.record_adapter)
