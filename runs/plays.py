"""What a worker tells of a try, of an attempt or of a prefix, becomes rows, counters and events: a record at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from decimal import Decimal

from desktops.actions import states
from desktops.handlers import BadRecord
from desktops.models import Assignment, Computer, State
from desktops.protocol import attempt as protocol
from runs import events
from runs.actions import attempts, prefixes
from runs.models import Attempt, AttemptTry, Prefix, PrefixTry, Run, Task
from runs.pending import Pending, write
from runs.receipt import look_again

Record = protocol.AttemptRecord | protocol.PrefixRecord


class Play(ABC):
    """A try while a batch of records is applied: what attempts and prefixes have in common."""

    def __init__(self, run: Run, one: AttemptTry | PrefixTry) -> None:
        self.run = run
        self.try_row = one

    @property
    def pending(self) -> Pending:
        assert self.run.pending is not None, "records are applied in a batch"
        return self.run.pending

    @abstractmethod
    def say(self, event: events.RunEvent, at: datetime | None) -> None:
        """Append to the run's log."""

    @abstractmethod
    def computer_started(self, computer: Computer) -> None: ...

    @abstractmethod
    def step(self, item: protocol.StepTaken) -> None: ...

    @abstractmethod
    def lost(self, assignment: Assignment) -> None:
        """The lease ran out without a word."""

    @abstractmethod
    def task(self) -> Task: ...

    def record(self, assignment: Assignment, record: Record, computer: Computer | None) -> bool:
        """True when it was the last one."""
        match record:
            case protocol.ComputerStarted():
                assert computer is not None
                self.computer_started(computer)
                self._started(computer)
            case protocol.ComputerReady() | protocol.ComputerStopped() if computer is None:
                raise BadRecord("There is no such computer.")
            case protocol.ComputerReady():
                assert computer is not None
                self.say(events.ComputerReady(computer=computer.label, seconds=record.seconds), record.at)
            case protocol.SetupAwaited():
                self.say(events.SetupAwaited(), record.at)
            case protocol.SetupDone():
                self._set_up(assignment, record)
            case protocol.StateSaved():
                self.state_saved(assignment, record, computer)
            case protocol.StepTaken():
                self.step(record)
        return False

    def _set_up(self, assignment: Assignment, record: protocol.SetupDone) -> None:
        one = self.try_row
        one.setup_seconds, one.setup_screenshot = record.seconds, record.screenshot
        write(self.run, one, "setup_seconds", "setup_screenshot")
        if record.from_state:
            self.started_from(assignment, record.from_state)
        self.seen(record.screenshot)
        said = events.SetupDone(seconds=record.seconds, steps=record.steps, from_state=record.from_state)
        self.say(said, record.at)

    def started_from(self, assignment: Assignment, name: str) -> None:
        """Which saved desktop it was, by name and digest: the name may be given to another one later."""
        one = self.try_row
        known = State.objects.filter(worker=assignment.worker_id, name=name).values_list("digest", flat=True)
        one.from_state, one.from_digest = name[:120], known.first() or ""
        write(self.run, one, "from_state", "from_digest")

    def state_saved(
        self, assignment: Assignment, record: protocol.StateSaved, computer: Computer | None
    ) -> None:
        """After the setup: for whoever is set up the same way later."""
        if states.origin_of(record.name) != State.Origin.SETUP:
            raise BadRecord(f"It was not asked to save {record.name!r}.")
        states.state_saved(assignment, computer, record, label=f"After the setup of {self.task()}")
        said = events.StateSaved(
            name=record.name, digest=record.digest, size_bytes=record.size_bytes, seconds=record.seconds
        )
        self.say(said, record.at)

    def step_taken(self, item: protocol.StepTaken, **of: int | None) -> None:
        self.pending.steps.append(
            {
                **of,
                "number": item.number,
                "at": item.at,
                "action": item.action.model_dump(exclude_defaults=True) | {"action": item.action.action},
                "prefix": item.prefix or of["prefix_try_id"] is not None,
                "policy_ms": item.policy_ms,
                "act_ms": item.act_ms,
                "settle_ms": item.settle_ms,
                "grab_ms": item.grab_ms,
                "settled": item.settled,
                "screenshot": item.screenshot,
                "active_window": item.active_window[:300],
                "error": item.error,
            }
        )
        self.seen(item.screenshot)
        said = events.StepTaken(
            step=item.number,
            action=item.action.action,
            took_ms=round(item.policy_ms + item.act_ms + item.settle_ms + item.grab_ms),
            screenshot=item.screenshot,
        )
        self.say(said, item.at)

    def seen(self, screenshot: str) -> None:
        if self.try_row.computer_id is not None:
            self.pending.screens[self.try_row.computer_id] = screenshot

    def told_late(self, computer: Computer) -> None:
        """It was this try's, whatever came after."""
        self.try_row.computer = computer
        write(self.run, self.try_row, "computer")
        self._started(computer)

    def _started(self, computer: Computer) -> None:
        said = events.ComputerStarted(computer=computer.label, worker=computer.worker.name)
        self.say(said, computer.started_at)

    def settled(self, computer: Computer, cost: Decimal) -> None:
        assert computer.stopped_at is not None
        said = events.ComputerStopped(
            computer=computer.label,
            reason=computer.stop_reason,
            seconds=round((computer.stopped_at - computer.started_at).total_seconds(), 3),
            cost_usd=str(cost),
        )
        self.say(said, computer.stopped_at)
        if self.run.is_terminal:
            look_again(self.run, computer)


class AttemptPlay(Play):
    def __init__(self, run: Run, one: AttemptTry) -> None:
        super().__init__(run, one)
        self.attempt, self.one = one.attempt, one

    def say(self, event: events.RunEvent, at: datetime | None) -> None:
        events.append(self.run, event, attempt=self.attempt, at=at)

    def computer_started(self, computer: Computer) -> None:
        attempts.on_computer(self.run, self.attempt, self.one, computer)

    def task(self) -> Task:
        return self.attempt.task

    def record(self, assignment: Assignment, record: Record, computer: Computer | None) -> bool:
        match record:
            case protocol.Forked():
                self._forked(assignment, record, computer)
            case protocol.TakenOver():
                label = self.attempt.computer.label if self.attempt.computer else ""
                attempts.on_taken_over(
                    self.run, self.attempt, self.one, computer=label, by=record.by, at=record.at
                )
            case protocol.Verifying():
                attempts.change(self.run, self.attempt, status=Attempt.Status.VERIFYING)
                self.say(events.AttemptVerifying(), record.at)
                self.pending.bells["supervisor"] = None
            case protocol.Verdict():
                self._verdict(record)
            case protocol.AttemptEnded():
                self._ended(record)
                return True
            case _:
                return super().record(assignment, record, computer)
        return False

    def step(self, item: protocol.StepTaken) -> None:
        self.attempt.steps = item.number
        write(self.run, self.attempt, "steps")
        self.step_taken(item, attempt_try_id=self.one.pk, prefix_try_id=None)

    def _forked(self, assignment: Assignment, item: protocol.Forked, computer: Computer | None) -> None:
        if computer is None:
            raise BadRecord("There is no such computer.")
        self.started_from(assignment, item.state)
        self.attempt.steps = self.run.spec["prefix_steps"]
        write(self.run, self.attempt, "steps")
        said = events.Forked(state=item.state, differences=item.differences, seconds=item.seconds)
        self.say(said, item.at)

    def _verdict(self, item: protocol.Verdict) -> None:
        self.one.reward, self.one.verdict = item.reward, item.model_dump(mode="json")
        write(self.run, self.one, "reward", "verdict")
        attempts.change(self.run, self.attempt, verifier=Attempt.Verifier.VALID, reward=item.reward)
        outcome = "success" if item.reward >= 1.0 else "fail"
        self.say(events.AttemptVerdict(reward=item.reward, outcome=outcome), item.at)  # type: ignore[arg-type]

    def _ended(self, item: protocol.AttemptEnded) -> None:
        if self.one.verdict is not None:  # a verdict that was reached stands, whatever broke after it
            self._end(Attempt.Status.DONE, ok=True, at=item.at, detail=item.detail)
        elif item.stopped and self.run.stop_reason:
            self._end(Attempt.Status.CANCELLED, ok=False, at=item.at, detail=item.detail)
        else:
            attempts.fail_try(
                self.run,
                self.attempt,
                self.one,
                reasons=list(item.invalid_reasons) or ["worker_fault"],
                detail=item.detail,
                checker_error=item.checker_error,
                at=item.at,
            )

    def lost(self, assignment: Assignment) -> None:
        at = assignment.ended_at
        if self.one.verdict is not None:
            self._end(Attempt.Status.DONE, ok=True, at=at, detail="The worker was lost after the verdict.")
        elif self.run.stop_reason:
            detail = "The worker was lost while the run was stopping."
            self._end(Attempt.Status.CANCELLED, ok=False, at=at, detail=detail)
        else:
            detail = f"Worker {assignment.worker} went quiet."
            attempts.fail_try(
                self.run, self.attempt, self.one, reasons=["worker_lost"], detail=detail, checker_error=""
            )

    def _end(self, status: str, *, ok: bool, at: datetime | None, detail: str) -> None:
        self.one.ok, self.one.ended_at, self.one.detail = ok, at, detail
        write(self.run, self.one, "ok", "ended_at", "detail")
        attempts.end_attempt(self.run, self.attempt, status=status, at=at)


class PrefixPlay(Play):
    def __init__(self, run: Run, one: PrefixTry) -> None:
        super().__init__(run, one)
        self.prefix, self.one = one.prefix, one

    def say(self, event: events.RunEvent, at: datetime | None) -> None:
        events.append(self.run, event, prefix=self.prefix, at=at)

    def computer_started(self, computer: Computer) -> None:
        prefixes.on_computer(self.run, self.prefix, self.one, computer)

    def task(self) -> Task:
        return self.prefix.task

    def record(self, assignment: Assignment, record: Record, computer: Computer | None) -> bool:
        if not isinstance(record, protocol.PrefixEnded):
            return super().record(assignment, record, computer)
        if record.ok and self.prefix.state is not None:
            self._saved(record.at, record.detail)
        elif record.stopped and self.run.stop_reason:
            self._cancelled(record.at, record.detail)
        else:
            prefixes.fail_try(
                self.run,
                self.prefix,
                self.one,
                reasons=list(record.invalid_reasons) or ["worker_fault"],
                detail=record.detail,
                at=record.at,
            )
        return True

    def step(self, item: protocol.StepTaken) -> None:
        self.prefix.steps, self.prefix.screenshot = item.number, item.screenshot
        write(self.run, self.prefix, "steps", "screenshot")
        self.step_taken(item, attempt_try_id=None, prefix_try_id=self.one.pk)

    def state_saved(
        self, assignment: Assignment, record: protocol.StateSaved, computer: Computer | None
    ) -> None:
        if states.origin_of(record.name) != State.Origin.PREFIX:
            super().state_saved(assignment, record, computer)
            return
        if record.name != assignment.payload["state"]:
            raise BadRecord(f"It was not asked to save {record.name!r}.")
        if record.attestation is None:
            raise BadRecord("Nothing could be compared with this prefix: it is not attested.")
        label = f"Run #{self.run.number}, prefix {self.prefix.number}: {self.prefix.task}"
        state = states.state_saved(assignment, computer, record, label=label)
        self.prefix.state, self.prefix.state_digest = state, state.digest
        write(self.run, self.prefix, "state", "state_digest")
        said = events.PrefixSaved(
            digest=record.digest,
            size_bytes=record.size_bytes,
            seconds=record.seconds,
            screenshot=self.prefix.screenshot,
        )
        self.say(said, record.at)

    def lost(self, assignment: Assignment) -> None:
        at = assignment.ended_at
        if self.run.stop_reason:
            self._cancelled(at, "The worker was lost while the run was stopping.")
        elif self.prefix.state is not None:
            self._saved(at, "The worker was lost after it was saved.")
        else:
            detail = f"Worker {assignment.worker} went quiet."
            prefixes.fail_try(self.run, self.prefix, self.one, reasons=["worker_lost"], detail=detail, at=at)

    def _saved(self, at: datetime | None, detail: str) -> None:
        prefixes.end_try(self.run, self.one, ok=True, at=at, detail=detail)
        prefixes.end_prefix(self.run, self.prefix, status=Prefix.Status.SAVED, at=at)

    def _cancelled(self, at: datetime | None, detail: str) -> None:
        prefixes.end_try(self.run, self.one, ok=False, at=at, detail=detail)
        prefixes.end_prefix(self.run, self.prefix, status=Prefix.Status.CANCELLED, at=at)
