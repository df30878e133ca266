from .attempt import Attempt, AttemptTry, Step
from .event import Event
from .run import Run, RunDraft
from .task import Task, TaskSet

__all__ = ["Attempt", "AttemptTry", "Event", "Run", "RunDraft", "Step", "Task", "TaskSet"]
