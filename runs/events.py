"""The kinds of event a run's log may hold: a closed, versioned union, and the one way to append to it."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, Literal

from django.utils import timezone
from pydantic import BaseModel, ConfigDict

from console.doorbell import ring

from .models import Attempt, Event, Prefix, Run
from .pending import write


class RunEvent(BaseModel):
    """Base of all kinds. `kind` and `version` name the shape of what is stored under `data`. What is of a prefix
    has its number there too, as `prefix`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    kind: ClassVar[str]
    version: ClassVar[int] = 1


class RunCreated(RunEvent):
    kind = "run_created"
    actor: str
    planned: int


class RunStatusChanged(RunEvent):
    kind = "run_status"
    old: str
    new: str
    reason: str = ""
    actor: str = ""
    detail: str = ""


class RunStopping(RunEvent):
    """The run was told to end; desktops are going away."""

    kind = "run_stopping"
    reason: str
    actor: str
    detail: str = ""


class CapChanged(RunEvent):
    """A cap was raised or lowered while the run was going; None: this one stayed. Dollars, minutes."""

    kind = "cap_changed"
    actor: str
    spend_cap_usd: str | None = None
    spend_cap_was_usd: str | None = None
    time_cap_minutes: int | None = None
    time_cap_was_minutes: int | None = None


class AttemptsRetried(RunEvent):
    """Attempts that had ended without a verdict are queued again; their earlier tries stay."""

    kind = "attempts_retried"
    actor: str
    attempts: int


class RunReopened(RunEvent):
    """A run that had ended goes on, for attempts without a verdict. `status` and `reason`: how it had ended."""

    kind = "run_reopened"
    actor: str
    attempts: int
    status: str
    reason: str
    detail: str = ""


class RoundCreated(RunEvent):
    kind = "round_created"
    round: int
    attempts: int


class AttemptOffered(RunEvent):
    kind = "attempt_offered"
    try_number: int
    worker: str


class PrefixOffered(RunEvent):
    """The first steps that the attempts of this task, copy and round share are played, to be saved."""

    kind = "prefix_offered"
    task: str
    round: int
    parallel_copy: int
    try_number: int
    worker: str


class PrefixSaved(RunEvent):
    """The desktop after the prefix was saved; `screenshot` is what its forks part from."""

    kind = "prefix_saved"
    digest: str
    size_bytes: int
    seconds: float
    screenshot: str


class PrefixEnded(RunEvent):
    """`status`: saved, error (each of its attempts plays it again) or cancelled."""

    kind = "prefix_ended"
    status: str
    reasons: list[str]
    tries: int


class PrefixReleased(RunEvent):
    """Its last fork has ended: the worker forgets what was saved."""

    kind = "prefix_released"


class StateSaved(RunEvent):
    """The desktop after the task's setup was saved, for later copies and rounds to start from."""

    kind = "state_saved"
    name: str
    digest: str
    size_bytes: int
    seconds: float


class Forked(RunEvent):
    """The attempt's desktop was started from a saved one and compared with it. No differences: it is a fork of it."""

    kind = "forked"
    state: str
    differences: list[str]
    seconds: float


class ComputerStarted(RunEvent):
    kind = "computer_started"
    computer: str
    worker: str


class ComputerReady(RunEvent):
    kind = "computer_ready"
    computer: str
    seconds: float


class ComputerStopped(RunEvent):
    kind = "computer_stopped"
    computer: str
    reason: str
    seconds: float
    cost_usd: str


class DesktopTakenOver(RunEvent):
    """A person acts on the desktop from now on; the attempt has no verdict."""

    kind = "desktop_taken_over"
    computer: str
    by: str


class SetupAwaited(RunEvent):
    """It starts no desktop until another has saved the setup that it needs too."""

    kind = "setup_awaited"


class SetupDone(RunEvent):
    """`from_state`: name of the saved desktop that was set up already, else empty."""

    kind = "setup_done"
    version = 2
    seconds: float
    steps: int
    from_state: str = ""


class StepTaken(RunEvent):
    kind = "step"
    step: int
    action: str
    took_ms: int
    screenshot: str


class AttemptVerifying(RunEvent):
    kind = "attempt_verifying"


class AttemptVerdict(RunEvent):
    kind = "attempt_verdict"
    reward: float
    outcome: Literal["success", "fail"]


class TryFailed(RunEvent):
    """An infrastructure fault ended a try; the attempt is played again."""

    kind = "try_failed"
    try_number: int
    reasons: list[str]
    detail: str


class AttemptEnded(RunEvent):
    kind = "attempt_ended"
    status: str
    verifier: str
    outcome: str | None
    reasons: list[str]
    tries: int


KINDS: dict[str, type[RunEvent]] = {kind.kind: kind for kind in RunEvent.__subclasses__()}


def append(
    run: Run,
    event: RunEvent,
    *,
    attempt: Attempt | None = None,
    prefix: Prefix | None = None,
    at: datetime | None = None,
) -> None:
    """Add to the run's log, in the transaction of what it tells.

    The caller holds the lock on the run's row: that is what makes the sequence gapless.
    """
    run.last_seq += 1
    write(run, run, "last_seq")
    row = {
        "run_id": run.pk,
        "seq": run.last_seq,
        "at": at or timezone.now(),
        "kind": event.kind,
        "version": event.version,
        "attempt_number": attempt.number if attempt else None,
        "data": event.model_dump(mode="json") | ({"prefix": prefix.number} if prefix else {}),
    }
    bell = f"run.{run.pk}"
    if run.pending is None:
        Event.objects.create(**row)
        ring(bell)
    else:
        run.pending.events.append(row)
        run.pending.bells[bell] = None
