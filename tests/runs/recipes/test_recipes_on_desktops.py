"""Every recipe on real desktops: nothing done is worth 0, the recipe 1, a wrong recipe 0; ours on saved ones too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from desktops.protocol.actions import Action, Done
from desktops.worker.checkers import Judgement, evaluate
from desktops.worker.computer import Computer
from desktops.worker.engine.base import Engine, SavingEngine
from desktops.worker.guest_client import Guest
from desktops.worker.setup import play
from desktops.worker.task import Task, parse
from runs.recipes.load import recipe_for, recipe_ids, wrong_recipe_for
from runs.tasksets.load import load
from runs.tasksets.osworld import read

pytestmark = pytest.mark.desktop

OWN = "deskyard-basics"
OSWORLD = "osworld"
SETTLE_MS, SETTLE_CAP_MS = 120, 3000  # as an attempt plays

Start = Callable[..., Computer]


@contextmanager
def kept(engine: Engine, computer: Computer) -> Iterator[str]:
    """Name of the desktop as it is now, saved; empty where live desktops cannot be saved."""
    if not isinstance(engine, SavingEngine):
        yield ""
        return
    name = f"setup-{computer.id}"
    computer.save(name, resume=True)
    try:
        yield name
    finally:
        engine.forget(name)


def played(task: Task, recipe: Sequence[Action], guest: Guest, folder: Path) -> Judgement:
    """What the checker says when the recipe is played on a desktop that is set up."""
    for action in recipe:
        guest.act(action, settle_ms=SETTLE_MS, timeout_ms=SETTLE_CAP_MS)
    play(task.evaluator.postconfig, guest, folder, lenient=True)
    return evaluate(task, guest, recipe[-1], folder)


def set_up(task: Task, guest: Guest, folder: Path) -> None:
    play(task.setup, guest, folder)
    assert evaluate(task, guest, Done(), folder).reward == 0, "nothing was done yet"


@pytest.mark.parametrize("task_id", recipe_ids(OWN))
def test_a_recipe_is_worth_the_same_on_a_fresh_and_on_a_saved_desktop_and_a_wrong_one_nothing(
    task_id: str, engine: Engine, start_computer: Start, tmp_path: Path
) -> None:
    imported = next(task for task in load(OWN).tasks if task.id == task_id)
    task, template = parse(imported.data), imported.templates[0]
    right, wrong = recipe_for(OWN, task_id), wrong_recipe_for(OWN, task_id)
    assert right is not None
    assert wrong is not None
    fresh = start_computer(template)
    set_up(task, fresh.guest, tmp_path)
    with kept(engine, fresh) as state:
        judgement = played(task, right, fresh.guest, tmp_path)
        assert judgement.reward == 1, judgement.evidence
        fresh.stop()
        for recipe, worth in ((right, 1), (wrong, 0)):
            with start_computer(template, state=state) as saved:
                if not state:
                    set_up(task, saved.guest, tmp_path)
                judgement = played(task, recipe, saved.guest, tmp_path)
                assert judgement.reward == worth, judgement.evidence


@pytest.mark.parametrize("task_id", recipe_ids(OSWORLD))
def test_a_recipe_solves_a_task_of_osworld(
    task_id: str, start_computer: Start, tmp_path: Path, osworld_folder: Path
) -> None:
    imported = next(task for task in read(osworld_folder).tasks if task.id == task_id)
    task, recipe = parse(imported.data), recipe_for(OSWORLD, task_id)
    assert recipe is not None
    guest = start_computer("office").guest
    set_up(task, guest, tmp_path)
    judgement = played(task, recipe, guest, tmp_path)
    assert judgement.reward == 1, judgement.evidence
