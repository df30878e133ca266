"""A team's own tasks: a folder of JSON files in OSWorld's format, one a task.

Beside them, both left out at will: `files/`, whose content a task takes in by `"bundled": "NAME"`, and `recipes/`, with
the actions that solve a task in a file of the same name.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from console.names import said_back
from console.redaction import holds_secret
from desktops.protocol.actions import Action, recipe_adapter
from desktops.worker.task import BadTask, canonical_json

from .osworld import ImportedTask, ImportReport, NotATaskSet, Refusal, read_bytes, read_file

RECIPES, FILES = "recipes", "files"
MAX_BYTES = 500_000  # task and recipe go to a worker in one message


def read(path: Path) -> tuple[ImportReport, dict[str, list[Action]]]:
    """The tasks of that folder and, by the task's id, their recipes. Raises NotATaskSet."""
    if not path.is_dir():
        raise NotATaskSet(f"There is no folder {path}.")
    report, recipes = ImportReport(), dict[str, list[Action]]()
    files = sorted(path.glob("*.json"))
    if not files:
        raise NotATaskSet(f"{path} holds no JSON files: each task is one, named by its id.")
    for file in files:
        task, recipe = read_task(file), None
        if isinstance(task, ImportedTask):
            try:
                recipe = _recipe_of(task, path / RECIPES / file.name)
            except BadTask as error:
                task = Refusal(file.name, "bad_file", str(error))
        if isinstance(task, Refusal):
            report.refused.append(task)
            continue
        report.tasks.append(task)
        if recipe is not None:
            recipes[task.id] = recipe
    known = {file.name for file in files}
    for file in sorted((path / RECIPES).glob("*.json")):
        if file.name not in known:
            report.refused.append(
                Refusal(f"{RECIPES}/{file.name}", "bad_file", "There is no task of this name.")
            )
    return report, recipes


def read_task(file: Path) -> ImportedTask | Refusal:
    """One task with all it brings, named as its file is."""
    read = read_file(file, file.name, lambda raw: _with_content(raw, file.parent / FILES))
    if isinstance(read, ImportedTask) and read.id != file.stem:
        return Refusal(file.name, "bad_file", f"The file is to be named as its task is: {read.id}.json.")
    return read


def _recipe_of(task: ImportedTask, file: Path) -> list[Action] | None:
    """The recipe in that file; None where there is none. Raises BadTask."""
    text = read_bytes(file) if file.is_file() else b""
    if holds_secret(text.decode(errors="replace")):
        raise BadTask(f"A secret of this console stands in {RECIPES}/{file.name}.")
    if len(canonical_json(task.data)) + len(text) > MAX_BYTES:
        raise BadTask(f"Task and recipe together are larger than {MAX_BYTES:,} bytes.")
    try:
        return recipe_adapter.validate_json(text) if file.is_file() else None
    except ValidationError as error:
        first = error.errors()[0]
        where = "/".join(map(str, first["loc"]))
        why = f"{where}: {first['msg']}" if where else first["msg"]
        raise BadTask(f"{RECIPES}/{file.name} is no list of actions: {why}") from error


def _with_content(value: Any, files: Path) -> Any:
    """Replace each `"bundled": name` by the content of that file, so that a task stands for itself."""
    if isinstance(value, list):
        return [_with_content(item, files) for item in value]
    if not isinstance(value, dict):
        return value
    filled = {key: _with_content(item, files) for key, item in value.items() if key != "bundled"}
    if "bundled" in value:
        filled["content_base64"] = base64.b64encode(_bundled(files, value["bundled"])).decode()
    return filled


def _bundled(files: Path, name: Any) -> bytes:
    """What that file holds, if it is really in the folder: a task may come from somebody else."""
    path = files / str(name)
    try:
        inside = path.resolve().is_relative_to(files.parent.resolve() / FILES)
        if inside and path.is_file():
            return read_bytes(path)
    except (OSError, ValueError, RuntimeError):
        pass  # a name that no file can have, or a link to itself
    raise BadTask(f"There is no file {FILES}/{said_back(name)}.")
