from .attempt import Attempt, AttemptTry, Step
from .event import Event
from .prefix import Prefix, PrefixTry
from .run import Run, RunDraft
from .sweep import RunSweep
from .tally import NoVerdict, ReasonTally, TaskTally
from .task import Task, TaskSet

__all__ = [
    "Attempt",
    "AttemptTry",
    "Event",
    "NoVerdict",
    "Prefix",
    "PrefixTry",
    "ReasonTally",
    "Run",
    "RunDraft",
    "RunSweep",
    "Step",
    "Task",
    "TaskSet",
    "TaskTally",
]
