"""Setup and postconfig steps: what brings a desktop into the state that a task starts from.

`play` carries out steps in order. No step waits a fixed time: a launched app is waited for by its window, a
`sleep` ends as soon as the screen is at rest.
"""

from . import browser, commands, files, windows  # noqa: F401  (they fill the registry)
from .registry import STEPS, SetupFailed, Stage, play

__all__ = ["STEPS", "SetupFailed", "Stage", "play"]
