"""Our own task sets: the JSON files of a folder here, with the files they bring put into them."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

from desktops.worker.task import canonical_json

from .folder import read_task
from .osworld import ImportedTask, Refusal

HERE = Path(__file__).parent
# Name as users see it → folder.
OWN_SETS = {"deskyard-basics": HERE / "deskyard_basics"}


@dataclass(frozen=True)
class TaskSet:
    """A list of tasks in a fixed order; `digest` is the SHA-256 over the canonical JSON of all of them."""

    name: str
    tasks: list[ImportedTask]
    digest: str


def set_digest(tasks: list[ImportedTask]) -> str:
    """SHA-256, in hex, over the canonical JSON of the cleaned tasks in their order."""
    return hashlib.sha256(canonical_json([task.data for task in tasks])).hexdigest()


@functools.cache
def load(name: str = "deskyard-basics") -> TaskSet:
    """One of our own task sets. Raises KeyError for another name."""
    folder = OWN_SETS[name]
    tasks = [_load_task(path) for path in sorted(folder.glob("*.json"))]
    return TaskSet(name, tasks, set_digest(tasks))


def _load_task(path: Path) -> ImportedTask:
    task = read_task(path)
    if isinstance(task, Refusal):
        raise ValueError(f"{task.file}: {task.sentence}")
    return task
