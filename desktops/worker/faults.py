"""Why an attempt has no verdict: one pure decision from what was raised and what is known of the desktop.

Accepted mistakes, on the side of never calling an infrastructure fault a Fail:

* A guest agent that a task's own program killed counts as `guest_unreachable`, though the policy did it.
* A desktop that died by itself is `desktop_lost`, also when the task ran it out of memory.
* A setup step that failed because the desktop was just dying is `desktop_lost` only if the desktop is already
  seen gone; otherwise it is `setup_failed`. Both are tried again.
* When somebody asked for the end (stop, money), whatever broke in the same moment is put down to that.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from desktops.protocol.attempt import InvalidReason

from .guest_client import GuestError, GuestUnreachable
from .spool import SpoolFull
from .task import BadTask


class Phase(StrEnum):
    """Where in an attempt something broke."""

    STARTING = "starting"
    SETUP = "setup"
    GATES = "gates"
    PLAYING = "playing"
    SAVING = "saving"
    COMPARING = "comparing"
    VERIFYING = "verifying"
    STOPPING = "stopping"


class NotReady(Exception):
    """A gate did not pass, after setup, in a step that waits, or before saving; the message says which."""


class ForkMismatch(Exception):
    """A desktop is not like the one it was forked from; the message says in what."""


class Ending(Exception):
    """Somebody wants this attempt to end. `reason` is an InvalidReason, or None if the console asked."""

    def __init__(self, detail: str, reason: InvalidReason | None = None) -> None:
        super().__init__(detail)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Fault:
    """`reason` None: ended because the console asked, which is nobody's fault."""

    reason: InvalidReason | None
    detail: str
    checker_error: str = ""


def classify(error: Exception, *, phase: Phase, desktop_alive: bool | None, ending: Ending | None) -> Fault:
    """`desktop_alive`: None before there was one. `ending`: what was asked for before the error came."""
    if ending is None and isinstance(error, Ending):
        ending = error
    if ending is not None:
        return Fault(ending.reason, str(ending))
    told = sentence(error)
    if isinstance(error, SpoolFull):
        return Fault("upload_failed", told)
    if isinstance(error, BadTask):
        return Fault("setup_failed", told)
    if phase is Phase.STARTING:
        return Fault("desktop_start_failed", told)
    if desktop_alive is False:
        return Fault("desktop_lost", f"the desktop went away while {phase}: {told}")
    if phase is Phase.SETUP:
        return Fault("guest_unreachable" if isinstance(error, GuestUnreachable) else "setup_failed", told)
    if isinstance(error, NotReady):
        return Fault("not_ready", told)
    if isinstance(error, ForkMismatch):
        return Fault("fork_mismatch", told)
    if phase is Phase.VERIFYING:
        # The checker runs code for any task: whatever it raises means that it gave no verdict.
        return Fault("checker_error", told, checker_error=told)
    if isinstance(error, GuestError):
        return Fault("guest_unreachable", told)
    return Fault("worker_fault", f"while {phase}: {told}")


def sentence(error: BaseException) -> str:
    """`KeyError: 'x'` for surprises, the bare message for errors that speak for themselves."""
    message = str(error).strip()
    own = type(error).__module__.startswith("desktops.")
    return (message if own and message else f"{type(error).__name__}: {message}".rstrip(": "))[:4000]
