from .assignment import Assignment
from .computer import Computer
from .template import Template, TemplateVersion
from .worker import Worker

__all__ = ["Assignment", "Computer", "Template", "TemplateVersion", "Worker"]
