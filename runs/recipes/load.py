"""Find the recipe of a task. Files are named by task id, folders by task set."""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

from desktops.protocol.actions import Action, recipe_adapter
from desktops.worker.task import canonical_json

HERE = Path(__file__).parent
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def recipe_for(task_set_name: str, task_id: str) -> list[Action] | None:
    """The actions that solve the task; None when there is no recipe for it."""
    path = _path(task_set_name, task_id)
    return None if path is None else list(_read(path))


def wrong_recipe_for(task_set_name: str, task_id: str) -> list[Action] | None:
    """Actions that go a like way and miss the task's point: a checker must give 0 for them."""
    path = _path(task_set_name, task_id, "wrong")
    return None if path is None else list(_read(path))


def digest(task_set_name: str, task_id: str) -> str | None:
    """SHA-256, in hex, of the recipe's canonical JSON; None when there is no recipe."""
    recipe = recipe_for(task_set_name, task_id)
    return None if recipe is None else recipe_digest(recipe)


def recipe_digest(recipe: list[Action]) -> str:
    """SHA-256, in hex, of the canonical JSON of these actions."""
    return hashlib.sha256(canonical_json([action.model_dump() for action in recipe])).hexdigest()


def recipe_ids(task_set_name: str) -> list[str]:
    """Ids of the tasks of a set that have a recipe, sorted."""
    folder = HERE / _folder(task_set_name)
    return sorted(path.stem for path in folder.glob("*.json"))


def _path(task_set_name: str, task_id: str, *below: str) -> Path | None:
    # Names come from requests: nothing that could lead out of the folder gets as far as a path.
    if not _SAFE.fullmatch(task_id) or not _SAFE.fullmatch(task_set_name):
        return None
    path = HERE.joinpath(_folder(task_set_name), *below, f"{task_id}.json")
    return path if path.is_file() else None


def _folder(task_set_name: str) -> str:
    return task_set_name.replace("-", "_")


@functools.cache
def _read(path: Path) -> tuple[Action, ...]:
    return tuple(recipe_adapter.validate_json(path.read_bytes()))
