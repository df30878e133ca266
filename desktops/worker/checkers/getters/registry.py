"""The registry of getters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from desktops.worker.checkers.bench import Bench

# Takes the bench and the getter's parameters. Raises ArtefactMissing for what the desktop lacks; a desktop
# that cannot be reached raises by itself.
Getter = Callable[[Bench, Mapping[str, Any]], Any]
GETTERS: dict[str, Getter] = {}


def getter(*names: str) -> Callable[[Getter], Getter]:
    """Register a getter under its name in the task format, and under its other names there."""

    def register(function: Getter) -> Getter:
        for name in names:
            GETTERS[name] = function
        return function

    return register
