import json

import pytest

from desktops.worker.checkers.evaluate import unsupported
from desktops.worker.setup import STEPS
from desktops.worker.task import parse
from runs.recipes.load import digest, recipe_digest, recipe_for, recipe_ids, wrong_recipe_for
from runs.tasksets.load import load, set_digest
from runs.tasksets.osworld import ImportedTask, why_not

SET = "deskyard-basics"
MAX_STEPS = 15  # of a run by default
MAX_BYTES = 200_000  # a task rides in a frame of the worker's link, with its recipe


def ids() -> list[str]:
    return [task.id for task in load(SET).tasks]


def by_id(task_id: str) -> ImportedTask:
    return next(task for task in load(SET).tasks if task.id == task_id)


def test_there_are_enough_tasks_for_both_templates() -> None:
    tasks = load(SET).tasks
    assert len(tasks) >= 16
    assert all("office" in task.templates for task in tasks)
    assert sum("basic" in task.templates for task in tasks) >= 5
    assert "rename-folder" in ids()


def test_all_apps_are_covered() -> None:
    apps = {app for task in load(SET).tasks for app in task.related_apps}
    assert apps >= {
        "terminal",
        "files",
        "editor",
        "settings",
        "libreoffice_calc",
        "libreoffice_writer",
        "libreoffice_impress",
        "gimp",
        "vlc",
        "chrome",
    }


@pytest.mark.parametrize("task_id", ids())
def test_a_task_runs_here_and_stands_for_itself(task_id: str) -> None:
    task = by_id(task_id)
    typed = parse(task.data)
    assert why_not(typed) is None
    assert unsupported(typed) == []
    assert all(step.type in STEPS for step in [*typed.setup, *typed.evaluator.postconfig])
    assert "bundled" not in json.dumps(task.data).replace("bundled_file", "")
    assert len(json.dumps(task.data)) < MAX_BYTES


@pytest.mark.parametrize("task_id", ids())
def test_a_task_has_a_recipe_and_a_wrong_one_within_the_default_steps(task_id: str) -> None:
    for recipe in (recipe_for(SET, task_id), wrong_recipe_for(SET, task_id)):
        assert recipe is not None
        assert len(recipe) <= MAX_STEPS
        assert recipe[-1].action == "done"
    assert recipe_for(SET, task_id) != wrong_recipe_for(SET, task_id)


def test_recipes_belong_to_tasks_and_have_a_digest() -> None:
    assert set(recipe_ids(SET)) == set(ids())
    recipe = recipe_for(SET, "rename-folder")
    assert recipe is not None
    assert digest(SET, "rename-folder") == recipe_digest(recipe)


def test_a_task_without_recipe_has_none() -> None:
    assert recipe_for(SET, "no-such-task") is None
    assert digest(SET, "no-such-task") is None


@pytest.mark.parametrize(
    "name", ["../deskyard_basics/rename-folder", "/etc/passwd", "", "a/b", "wrong/rename-folder"]
)
def test_a_name_cannot_lead_out_of_the_recipes(name: str) -> None:
    assert recipe_for(SET, name) is None
    assert recipe_for(name, "rename-folder") is None


def test_the_sets_digest_depends_on_every_task_and_their_order() -> None:
    tasks = load(SET).tasks
    assert load(SET).digest == set_digest(tasks)
    assert set_digest(tasks[1:]) != set_digest(tasks) != set_digest(tasks[::-1])
