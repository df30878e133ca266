"""A folder of a team's own tasks, with what they bring and the recipes that solve them."""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from console.models import Workspace
from runs.models import TaskSet
from runs.tasksets.folder import read
from runs.tasksets.osworld import NotATaskSet

from .test_osworld_import import TASK


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tasks, `a` with a recipe and a file that it brings, `b` with neither."""
    path = tmp_path / "our-tasks"
    for name in ("files", "recipes"):
        (path / name).mkdir(parents=True)
    (path / "files" / "note.txt").write_bytes(b"Buy milk.")
    put(path, "a", config=[upload("note.txt")])
    put(path, "b")
    (path / "recipes" / "a.json").write_text('[{"action": "type", "text": "hello"}, {"action": "done"}]')
    return path


def put(path: Path, name: str, **changes: Any) -> None:
    (path / f"{name}.json").write_text(json.dumps(TASK | {"id": name} | changes))


def upload(bundled: Any) -> dict[str, Any]:
    return {
        "type": "upload_file",
        "parameters": {"files": [{"path": "~/note.txt", "bundled": bundled}]},
    }


def tabs(urls: Any) -> dict[str, Any]:
    return {"type": "chrome_open_tabs", "parameters": {"urls_to_open": urls}}


def refused(path: Path) -> dict[str, str]:
    return {one.file: one.sentence for one in read(path)[0].refused}


def test_its_tasks_are_read_with_what_they_bring_and_their_recipes(folder: Path) -> None:
    report, recipes = read(folder)
    assert [task.id for task in report.tasks] == ["a", "b"]
    assert report.refused == []
    brought = report.tasks[0].data["config"][0]["parameters"]["files"][0]
    assert base64.b64decode(brought["content_base64"]) == b"Buy milk."
    assert [action.action for action in recipes["a"]] == ["type", "done"]
    assert "b" not in recipes


@pytest.mark.parametrize("name", ["missing.txt", "../a.json", "/etc/hostname", "", None, ["note.txt"]])
def test_a_task_brings_nothing_from_outside_its_folder(folder: Path, name: Any) -> None:
    put(folder, "b", config=[upload(name)])
    assert refused(folder) == {"b.json": f"There is no file files/{name}."}


def test_a_link_out_of_the_folder_is_not_followed(folder: Path) -> None:
    (folder / "files" / "link").symlink_to(folder / "a.json")
    put(folder, "b", config=[upload("link")])
    assert refused(folder) == {"b.json": "There is no file files/link."}


def test_nor_is_the_folder_of_files_one(folder: Path, tmp_path: Path) -> None:
    (folder / "files").rename(tmp_path / "elsewhere")
    (folder / "files").symlink_to(tmp_path / "elsewhere")
    assert refused(folder) == {"a.json": "There is no file files/note.txt."}


def make_odd(kind: str, path: Path) -> None:
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        with path.open("wb") as file:
            file.truncate(5 << 20)
    else:
        path.symlink_to({"dangling": "nowhere", "loop": path.name, "device": "/dev/zero"}[kind])


@pytest.mark.parametrize("kind", ["folder", "pipe", "large", "dangling", "loop", "device"])
def test_what_is_no_usual_file_is_listed_and_stops_nothing(folder: Path, kind: str) -> None:
    make_odd(kind, folder / "c.json")
    make_odd(kind, folder / "files" / "odd")
    put(folder, "b", config=[upload("odd")])
    assert [task.id for task in read(folder)[0].tasks] == ["a"]
    assert set(refused(folder)) == {"b.json", "c.json"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 200_000, "nested too deeply"),
        (
            '{"id": "b", "instruction": "x", "evaluator": {}, "n": ' + "9" * 5000 + "}",
            "cannot be read|not JSON",
        ),
        (json.dumps(TASK | {"id": "b", "instruction": "do\0it"}), "character NUL"),
        (json.dumps(TASK | {"id": "b", "instruction": "do\ud800it"}), "surrogate"),
        (
            json.dumps(TASK | {"id": "b", "config": [tabs(None)]}),
            "urls_to_open",
        ),
        (json.dumps(TASK | {"id": "b", "config": [tabs([1])]}), "urls_to_open"),
        (
            json.dumps(TASK | {"id": "b", "config": [{"type": "launch", "parameters": {"command": "a 'b"}}]}),
            "command of its step launch",
        ),
        (json.dumps(TASK | {"id": "b", "config": [upload("n" * 5000)]}), "There is no file files/nnn"),
        (json.dumps(TASK | {"id": "b", "config": [upload("a\0b")]}), "There is no file"),
    ],
    ids=["deep", "digits", "nul", "surrogate", "no-urls", "odd-urls", "quote", "long-name", "nul-in-name"],
)
def test_a_file_that_is_none_of_a_task_says_why_and_stops_nothing(folder: Path, text: str, why: str) -> None:
    (folder / "b.json").write_text(text)
    assert [task.id for task in read(folder)[0].tasks] == ["a"]
    assert re.search(why, refused(folder)["b.json"])


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ("{", "no list of actions"),
        ('{"action": "done"}', "no list of actions"),
        ('[{"action": "shell", "command": "ls"}]', "no list of actions"),
        ('[{"action": "click", "x": 5000, "y": 1}]', "less than 1920"),
    ],
)
def test_a_bad_recipe_keeps_its_task_out_and_says_where_it_is_wrong(
    folder: Path, recipe: str, why: str
) -> None:
    (folder / "recipes" / "a.json").write_text(recipe)
    assert [task.id for task in read(folder)[0].tasks] == ["b"]
    assert refused(folder)["a.json"].startswith("recipes/a.json is no list of actions")
    assert why in refused(folder)["a.json"]


def test_a_recipe_of_no_task_and_a_file_of_another_name_are_listed(folder: Path) -> None:
    (folder / "recipes" / "c.json").write_text("[]")
    put(folder, "d", id="e")
    assert refused(folder) == {
        "d.json": "The file is to be named as its task is: e.json.",
        "recipes/c.json": "There is no task of this name.",
    }


def test_a_task_too_large_for_a_message_to_a_worker_is_listed(folder: Path) -> None:
    (folder / "files" / "large").write_bytes(bytes(400_000))
    put(folder, "b", config=[upload("large")])
    assert refused(folder) == {"b.json": "Task and recipe together are larger than 500,000 bytes."}


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotATaskSet):
            read(path)


def test_the_command_makes_a_set_of_it_and_a_new_version_when_a_recipe_changes(
    workspace: Workspace, folder: Path
) -> None:
    for _ in range(2):
        call_command("import_tasks", "folder", str(folder))
    stored = TaskSet.objects.for_workspace(workspace).get()
    assert str(stored) == "our-tasks@1"
    assert dict(stored.tasks.values_list("task_id", "recipe"))["a"] == [
        {"action": "type", "text": "hello"},
        {"action": "done"},
    ]
    (folder / "recipes" / "a.json").write_text('[{"action": "done"}]')
    call_command("import_tasks", "folder", str(folder))
    assert str(TaskSet.objects.for_workspace(workspace).current().get()) == "our-tasks@2"


def test_files_that_cannot_run_are_listed_and_forgotten_though_the_tasks_stay_the_same(
    workspace: Workspace, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("import_tasks", "folder", str(folder))
    (folder / "c.json").write_text("no json")
    call_command("import_tasks", "folder", str(folder))
    stored = TaskSet.objects.for_workspace(workspace).get()
    assert [one["file"] for one in stored.refused] == ["c.json"]
    assert "c.json: The file is not JSON" in capsys.readouterr().out
    (folder / "c.json").unlink()
    call_command("import_tasks", "folder", str(folder))
    stored.refresh_from_db()
    assert stored.refused == []


@pytest.mark.parametrize(
    ("name", "why"), [("osworld", "taken"), ("deskyard-basics", "taken"), ("two words", "letters")]
)
def test_the_command_refuses_a_name_that_is_taken_or_is_none(
    workspace: Workspace, folder: Path, name: str, why: str
) -> None:
    with pytest.raises(CommandError, match=why):
        call_command("import_tasks", "folder", str(folder), name=name)
    assert not TaskSet.objects.exists()
