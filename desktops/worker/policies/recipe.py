"""The policy of a scripted test: a fixed list of actions, whatever the screen shows."""

from __future__ import annotations

from collections.abc import Sequence

from desktops.protocol.actions import Action

from .base import Observation


class RecipePolicy:
    def __init__(self, actions: Sequence[Action]) -> None:
        self._actions = actions

    def decide(self, seen: Observation) -> Action | None:
        return self._actions[seen.step - 1] if seen.step <= len(self._actions) else None
