"""The registry of setup steps and the one loop that plays them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from desktops.worker.guest_client import Guest, GuestCommandTimeout, GuestFileMissing, GuestRefused
from desktops.worker.task import SetupStep


class SetupFailed(Exception):
    """A step of the setup failed: which one, and why."""

    def __init__(self, step: str, why: str) -> None:
        super().__init__(f"{step}: {why}")
        self.step = step
        self.why = why


class StepRefused(Exception):
    """Raised by a step that cannot do what it was asked; `play` adds which step it was."""


@dataclass
class Stage:
    """What a step may use: the desktop, and a folder on the worker for what checkers will read."""

    guest: Guest
    folder: Path
    notes: list[str] = field(default_factory=list)


Step = Callable[[Stage, Mapping[str, Any]], None]
STEPS: dict[str, Step] = {}


def step(*names: str) -> Callable[[Step], Step]:
    """Register a step under its name in the task format, and under its other names there."""

    def register(function: Step) -> Step:
        for name in names:
            STEPS[name] = function
        return function

    return register


def play(steps: Sequence[SetupStep], guest: Guest, folder: Path, *, lenient: bool = False) -> list[str]:
    """Play steps in order; gives notes on what did not go quite as asked.

    A step that fails raises SetupFailed. With `lenient` (postconfig, after the policy has acted) it becomes a
    note: a window that the policy has closed is no reason to have no verdict. GuestUnreachable always rises.
    """
    stage = Stage(guest, folder)
    for number, item in enumerate(steps, 1):
        name = f"step {number} ({item.type})"
        try:
            function = STEPS.get(item.type)
            if function is None:
                raise StepRefused("there is no such step here")
            function(stage, item.parameters)
        except (StepRefused, GuestRefused, GuestFileMissing, GuestCommandTimeout) as error:
            if not lenient:
                raise SetupFailed(name, str(error)) from error
            stage.notes.append(f"{name}: {error}")
        except (KeyError, TypeError, ValueError) as error:
            # Parameters that a step cannot read are the task's fault in both phases.
            raise SetupFailed(name, f"its parameters cannot be read ({error!r})") from error
    return stage.notes
