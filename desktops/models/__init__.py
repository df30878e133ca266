from .ask import Ask
from .assignment import Assignment
from .computer import Computer
from .hold import Hold
from .rate import WorkerRate
from .state import State
from .tally import ComputerTally
from .template import DiscardedImage, Template, TemplateVersion
from .view import LiveView
from .worker import Worker

__all__ = [
    "Ask",
    "Assignment",
    "Computer",
    "ComputerTally",
    "DiscardedImage",
    "Hold",
    "LiveView",
    "State",
    "Template",
    "TemplateVersion",
    "Worker",
    "WorkerRate",
]
