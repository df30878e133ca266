from .attempt import Attempt, AttemptTry, Step
from .event import Event
from .run import Run, RunDraft
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
    "Step",
    "Task",
    "TaskSet",
    "TaskTally",
]
