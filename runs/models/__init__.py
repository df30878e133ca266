from .attempt import Attempt, AttemptTry, Step
from .event import Event
from .run import Run, RunDraft
from .sweep import RunSweep
from .tally import NoVerdict, ReasonTally, TaskTally
from .task import Task, TaskSet

__all__ = [
    "Attempt",
    "AttemptTry",
    "Event",
    "NoVerdict",
    "ReasonTally",
    "Run",
    "RunDraft",
    "RunSweep",
    "Step",
    "Task",
    "TaskSet",
    "TaskTally",
]
