"""Our own task sets: the JSON files of a folder here, with the files they bring put into them."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desktops.worker.task import canonical_json, clean, digest, parse

from .osworld import ImportedTask
from .templates import templates_for

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
    raw = _with_content(json.loads(path.read_text(encoding="utf-8")), path.parent / "files")
    data = clean(raw)
    task = parse(data)
    if task.id != path.stem:
        raise ValueError(f"{path.name} holds the task {task.id}")
    return ImportedTask(
        id=task.id,
        instruction=task.instruction,
        domain=task.related_apps[0],
        related_apps=task.related_apps,
        templates=templates_for(task.related_apps),
        data=data,
        digest=digest(data),
    )


def _with_content(value: Any, files: Path) -> Any:
    """Replace each `"bundled": name` by the content of that file, so that a task stands for itself."""
    if isinstance(value, list):
        return [_with_content(item, files) for item in value]
    if not isinstance(value, dict):
        return value
    filled = {key: _with_content(item, files) for key, item in value.items() if key != "bundled"}
    if "bundled" in value:
        content = (files / value["bundled"]).read_bytes()
        filled["content_base64"] = base64.b64encode(content).decode()
    return filled
