from .assignment import Assignment
from .computer import Computer
from .rate import WorkerRate
from .state import State
from .tally import ComputerTally
from .template import Template, TemplateVersion
from .worker import Worker

__all__ = [
    "Assignment",
    "Computer",
    "ComputerTally",
    "State",
    "Template",
    "TemplateVersion",
    "Worker",
    "WorkerRate",
]
