"""The one interface of everything that plays: look at the screen, name the next action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from desktops.protocol.actions import Action


@dataclass(frozen=True, slots=True)
class Observation:
    """What the screen shows now. `step` is the number the next action will have, from 1."""

    step: int
    screenshot: bytes  # PNG, 1920×1080
    active_window: str
    instruction: str


class Policy(Protocol):
    def decide(self, seen: Observation) -> Action | None:
        """The next action; None when there is nothing left to do, which is no step."""
        ...
