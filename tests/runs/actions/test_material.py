"""Task sets as they come in, and the command that imports them."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from console.actor import Actor
from console.models import User, Workspace
from runs.actions.material import import_osworld, store_own_set
from runs.models import Task, TaskSet
from runs.tasksets.osworld import NotATaskSet

SYSTEM = Actor.system()


@pytest.fixture
def osworld() -> Path:
    named = os.environ.get("DESKYARD_OSWORLD")
    beside = [folder / "shared" / "osworld" for folder in Path(__file__).resolve().parents]
    for folder in [Path(named)] if named else beside:
        if folder.is_dir():
            return folder
    pytest.skip("OSWorld's task files are not here: set DESKYARD_OSWORLD")


def test_our_own_set_is_stored_with_a_recipe_each(workspace: Workspace) -> None:
    stored = store_own_set(workspace=workspace, actor=SYSTEM)
    assert (stored.name, stored.version, stored.is_current) == ("deskyard-basics", 1, True)
    tasks = list(stored.tasks.all())
    assert len(tasks) >= 14
    assert all(task.recipe and task.recipe_digest.startswith("sha256:") for task in tasks)
    assert all("office" in task.templates for task in tasks)


def test_the_same_content_changes_nothing(workspace: Workspace) -> None:
    first = store_own_set(workspace=workspace, actor=SYSTEM)
    assert store_own_set(workspace=workspace, actor=SYSTEM) == first
    assert TaskSet.objects.count() == 1


def test_other_content_is_the_next_version_and_the_old_one_stays(workspace: Workspace) -> None:
    first = store_own_set(workspace=workspace, actor=SYSTEM)
    Task.objects.filter(task_set=first, position=1).update(recipe_digest="sha256:other")
    second = store_own_set(workspace=workspace, actor=SYSTEM)
    first.refresh_from_db()
    assert (second.version, second.is_current, first.is_current) == (2, True, False)
    assert TaskSet.objects.for_workspace(workspace).current().get() == second


def test_another_workspace_has_its_own(workspace: Workspace, other_workspace: Workspace) -> None:
    store_own_set(workspace=workspace, actor=SYSTEM)
    assert store_own_set(workspace=other_workspace, actor=SYSTEM).version == 1


def test_each_osworld_file_becomes_a_task_or_says_why_not(workspace: Workspace, osworld: Path) -> None:
    stored = import_osworld(workspace=workspace, path=osworld, actor=SYSTEM)
    files = len(list((osworld / "examples").rglob("*.json")))
    assert stored.tasks.count() + len(stored.refused) == files
    assert all(one["code"] and one["reason"] for one in stored.refused)
    assert stored.tasks.exclude(recipe=None).count() >= 12


def test_a_folder_without_tasks_is_refused(workspace: Workspace, tmp_path: Path) -> None:
    with pytest.raises(NotATaskSet):
        import_osworld(workspace=workspace, path=tmp_path, actor=SYSTEM)
    assert not TaskSet.objects.exists()


def test_the_command_lists_what_cannot_run(workspace: Workspace, osworld: Path) -> None:
    said = io.StringIO()
    call_command("import_tasks", "osworld", str(osworld), stdout=said)
    assert "osworld@1" in said.getvalue()
    assert "(needs_web)" in said.getvalue()


def osworld_task(folder: Path, name: str, **changes: Any) -> None:
    """A task that is whole, and can run nowhere here: its app is in no template."""
    task = {
        "id": name,
        "instruction": "Open the page.",
        "related_apps": ["vs_code"],
        "config": [],
        "evaluator": {"func": "infeasible"},
    }
    (folder / f"{name}.json").write_text(json.dumps(task | changes))


def test_the_command_says_why_each_task_cannot_run_when_none_can(
    workspace: Workspace, tmp_path: Path
) -> None:
    osworld_task(tmp_path, "a")
    osworld_task(tmp_path, "b", config=[{"type": "googledrive", "parameters": {}}])
    said = io.StringIO()
    with pytest.raises(CommandError, match="None of these 2 files is a task that can run here"):
        call_command("import_tasks", "osworld", str(tmp_path), stdout=said)
    assert said.getvalue().splitlines()[:2] == [
        "a.json: No template has vscode. (app_missing)",
        "b.json: It needs a Google account. (google_drive)",
    ]
    assert "1 cannot: app_missing" in said.getvalue()
    assert not TaskSet.objects.exists()


def test_a_folder_of_other_files_is_said_to_hold_no_tasks(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"name": "something else"}')
    with pytest.raises(CommandError, match=r"no task files of OSWorld\. None of its 1 JSON files"):
        call_command("import_tasks", "osworld", str(tmp_path))


def test_the_command_asks_which_workspace(
    workspace: Workspace, other_workspace: Workspace, tmp_path: Path
) -> None:
    with pytest.raises(CommandError, match="--workspace"):
        call_command("import_tasks", "osworld", str(tmp_path))
    with pytest.raises(CommandError, match="nowhere"):
        call_command("import_tasks", "osworld", str(tmp_path), workspace="nowhere")


def test_the_command_says_that_a_folder_holds_no_tasks(
    workspace: Workspace, owner: User, tmp_path: Path
) -> None:
    with pytest.raises(CommandError):
        call_command("import_tasks", "osworld", str(tmp_path / "missing"))
