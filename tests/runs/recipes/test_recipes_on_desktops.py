"""Every recipe on a fresh desktop: nothing done is worth 0, the recipe 1, a wrong recipe 0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from desktops.protocol.actions import Action, Done
from desktops.worker.checkers import Judgement, evaluate
from desktops.worker.computer import Computer
from desktops.worker.guest_client import Guest
from desktops.worker.setup import play
from desktops.worker.task import Task, parse
from runs.recipes.load import recipe_for, recipe_ids, wrong_recipe_for
from runs.tasksets.load import load
from runs.tasksets.osworld import ImportedTask, read

pytestmark = pytest.mark.desktop

OWN = "deskyard-basics"
OSWORLD = "osworld"
SETTLE_MS, SETTLE_CAP_MS = 120, 3000  # as an attempt plays

Start = Callable[..., Computer]


def act(guest: Guest, recipe: Sequence[Action]) -> Action:
    for action in recipe:
        guest.act(action, settle_ms=SETTLE_MS, timeout_ms=SETTLE_CAP_MS)
    return recipe[-1]


def judge(task: Task, guest: Guest, last: Action, folder: Path) -> Judgement:
    play(task.evaluator.postconfig, guest, folder, lenient=True)
    return evaluate(task, guest, last, folder)


def own(task_id: str) -> ImportedTask:
    return next(task for task in load(OWN).tasks if task.id == task_id)


def solves(imported: ImportedTask, recipe: Sequence[Action] | None, guest: Guest, folder: Path) -> None:
    assert recipe is not None
    task = parse(imported.data)
    play(task.setup, guest, folder)
    assert evaluate(task, guest, Done(), folder).reward == 0, "nothing was done yet"
    judgement = judge(task, guest, act(guest, recipe), folder)
    assert judgement.reward == 1, judgement.evidence


@pytest.mark.parametrize("task_id", recipe_ids(OWN))
def test_a_recipe_solves_its_task(task_id: str, start_computer: Start, tmp_path: Path) -> None:
    task = own(task_id)
    solves(task, recipe_for(OWN, task_id), start_computer(task.templates[0]).guest, tmp_path)


@pytest.mark.parametrize("task_id", recipe_ids(OWN))
def test_a_wrong_recipe_is_worth_nothing(task_id: str, start_computer: Start, tmp_path: Path) -> None:
    imported, recipe = own(task_id), wrong_recipe_for(OWN, task_id)
    assert recipe is not None
    guest = start_computer(imported.templates[0]).guest
    task = parse(imported.data)
    play(task.setup, guest, tmp_path)
    judgement = judge(task, guest, act(guest, recipe), tmp_path)
    assert judgement.reward == 0, judgement.evidence


@pytest.mark.parametrize("task_id", recipe_ids(OSWORLD))
def test_a_recipe_solves_a_task_of_osworld(
    task_id: str, start_computer: Start, tmp_path: Path, osworld_folder: Path
) -> None:
    tasks = {task.id: task for task in read(osworld_folder).tasks}
    solves(tasks[task_id], recipe_for(OSWORLD, task_id), start_computer("office").guest, tmp_path)
