"""The handler of kind `attempt`: what a worker reports of one becomes rows, counters and events."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

from console.doorbell import ring
from desktops.handlers import BadRecord, register
from desktops.models import Assignment, Computer
from desktops.protocol import attempt as protocol
from runs import events
from runs.actions import attempts
from runs.models import Attempt, AttemptTry, Run, Step

KIND = "attempt"


class AttemptHandler:
    def lock(self, subject: uuid.UUID) -> None:
        """The run's row: everything about one run happens one after another."""
        Run.objects.select_for_update(of=["self"], no_key=True).get(attempts=subject)

    def _load(self, assignment: Assignment) -> tuple[Run, Attempt, AttemptTry]:
        one = AttemptTry.objects.select_related("attempt__run__workspace").get(assignment=assignment)
        return one.attempt.run, one.attempt, one

    def record(self, assignment: Assignment, record: dict[str, Any], computer: Computer | None) -> bool:
        item = protocol.record_adapter.validate_python(record)
        run, attempt, one = self._load(assignment)
        match item:
            case protocol.ComputerStarted():
                assert computer is not None
                attempts.on_computer(attempt, one, computer)
                said = events.ComputerStarted(computer=computer.label, worker=computer.worker.name)
                events.append(run, said, attempt=attempt, at=item.at)
            case protocol.ComputerReady():
                if computer is None:
                    raise BadRecord("There is no such computer.")
                ready = events.ComputerReady(computer=computer.label, seconds=item.seconds)
                events.append(run, ready, attempt=attempt, at=item.at)
            case protocol.ComputerStopped():
                if computer is None:
                    raise BadRecord("There is no such computer.")
            case protocol.SetupDone():
                one.setup_seconds, one.setup_screenshot = item.seconds, item.screenshot
                one.save(update_fields=["setup_seconds", "setup_screenshot"])
                self._seen(one, item.screenshot)
                events.append(
                    run, events.SetupDone(seconds=item.seconds, steps=item.steps), attempt=attempt, at=item.at
                )
            case protocol.StepTaken():
                self._step(run, attempt, one, item)
            case protocol.Verifying():
                attempts.change(run, attempt, status=Attempt.Status.VERIFYING)
                events.append(run, events.AttemptVerifying(), attempt=attempt, at=item.at)
            case protocol.Verdict():
                self._verdict(run, attempt, one, item)
            case protocol.AttemptEnded():
                self._ended(run, attempt, one, item)
                ring("supervisor")
                return True
        return False

    def _seen(self, one: AttemptTry, screenshot: str) -> None:
        if one.computer_id is not None:
            Computer.objects.filter(pk=one.computer_id).update(last_screenshot=screenshot)

    def _step(self, run: Run, attempt: Attempt, one: AttemptTry, item: protocol.StepTaken) -> None:
        step = Step.objects.create(
            attempt_try=one,
            number=item.number,
            at=item.at,
            action=item.action.model_dump(exclude_defaults=True) | {"action": item.action.action},
            prefix=item.prefix,
            policy_ms=item.policy_ms,
            act_ms=item.act_ms,
            settle_ms=item.settle_ms,
            grab_ms=item.grab_ms,
            settled=item.settled,
            screenshot=item.screenshot,
            active_window=item.active_window[:300],
            error=item.error,
        )
        attempt.steps = item.number
        attempt.save(update_fields=["steps"])
        self._seen(one, item.screenshot)
        said = events.StepTaken(
            step=item.number,
            action=item.action.action,
            took_ms=round(step.took_ms),
            screenshot=item.screenshot,
        )
        events.append(run, said, attempt=attempt, at=item.at)

    def _verdict(self, run: Run, attempt: Attempt, one: AttemptTry, item: protocol.Verdict) -> None:
        one.reward, one.verdict = item.reward, item.model_dump(mode="json")
        one.save(update_fields=["reward", "verdict"])
        self._seen(one, item.screenshot)
        attempts.change(run, attempt, verifier=Attempt.Verifier.VALID, reward=item.reward)
        outcome = "success" if item.reward >= 1.0 else "fail"
        said = events.AttemptVerdict(reward=item.reward, outcome=outcome)  # type: ignore[arg-type]
        events.append(run, said, attempt=attempt, at=item.at)

    def _ended(self, run: Run, attempt: Attempt, one: AttemptTry, item: protocol.AttemptEnded) -> None:
        if one.verdict is not None:  # a verdict that was reached stands, whatever broke after it
            one.ok, one.ended_at, one.detail = True, item.at, item.detail
            one.save(update_fields=["ok", "ended_at", "detail"])
            attempts.end_attempt(run, attempt, status=Attempt.Status.DONE)
        elif item.stopped and run.stop_reason:
            one.ok, one.ended_at, one.detail = False, item.at, item.detail
            one.save(update_fields=["ok", "ended_at", "detail"])
            attempts.end_attempt(run, attempt, status=Attempt.Status.CANCELLED)
        else:
            attempts.fail_try(
                run,
                attempt,
                one,
                reasons=list(item.invalid_reasons) or ["worker_fault"],
                detail=item.detail,
                checker_error=item.checker_error,
            )

    def lost(self, assignment: Assignment) -> None:
        run, attempt, one = self._load(assignment)
        if one.verdict is not None:
            one.ok, one.ended_at, one.detail = (
                True,
                assignment.ended_at,
                "The worker was lost after the verdict.",
            )
            one.save(update_fields=["ok", "ended_at", "detail"])
            attempts.end_attempt(run, attempt, status=Attempt.Status.DONE)
        elif run.stop_reason:
            attempts.end_attempt(run, attempt, status=Attempt.Status.CANCELLED)
        else:
            detail = f"Worker {assignment.worker} went quiet."
            attempts.fail_try(run, attempt, one, reasons=["worker_lost"], detail=detail, checker_error="")
        ring("supervisor")

    def computer_settled(self, assignment: Assignment, computer: Computer, cost: Decimal) -> None:
        run, attempt, _ = self._load(assignment)
        assert computer.stopped_at is not None
        said = events.ComputerStopped(
            computer=computer.label,
            reason=computer.stop_reason,
            seconds=round((computer.stopped_at - computer.started_at).total_seconds(), 3),
            cost_usd=str(cost),
        )
        events.append(run, said, attempt=attempt, at=computer.stopped_at)


register(KIND, AttemptHandler())
