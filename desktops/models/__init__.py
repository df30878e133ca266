from .assignment import Assignment
from .computer import Computer
from .rate import WorkerRate
from .tally import ComputerTally
from .template import Template, TemplateVersion
from .worker import Worker

__all__ = ["Assignment", "Computer", "ComputerTally", "Template", "TemplateVersion", "Worker", "WorkerRate"]
