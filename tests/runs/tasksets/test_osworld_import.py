import json
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest

from desktops.worker.task import clean, digest
from runs.tasksets.osworld import ImportReport, NotATaskSet, ReasonCode, Refusal, read

TASK: dict[str, Any] = {
    "id": "t",
    "instruction": "Do it.",
    "config": [],
    "related_apps": ["os"],
    "evaluator": {
        "func": "exact_match",
        "result": {"type": "vm_command_line", "command": "ls"},
        "expected": {"type": "rule", "rules": {"expected": "a"}},
    },
}


def read_one(tmp_path: Path, **changes: Any) -> ImportReport:
    (tmp_path / "os").mkdir(exist_ok=True)
    (tmp_path / "os" / "t.json").write_text(json.dumps(TASK | changes))
    return read(tmp_path)


def evaluator(**changes: Any) -> dict[str, Any]:
    return {**TASK["evaluator"], **changes}


def test_a_task_that_can_run_is_imported_with_templates_and_digest(tmp_path: Path) -> None:
    report = read_one(tmp_path)
    assert report.refused == []
    task = report.tasks[0]
    assert (task.id, task.domain, task.templates) == ("t", "os", ["office"])
    assert task.digest == digest(clean(TASK))


def test_what_basic_has_office_has_too(tmp_path: Path) -> None:
    assert read_one(tmp_path, related_apps=["terminal"]).tasks[0].templates == ["basic", "office"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"instruction": ""}, "bad_file"),
        ({"proxy": "true"}, "needs_web"),
        ({"config": [{"type": "download", "parameters": {"files": []}}]}, "needs_web"),
        (
            {"config": [{"type": "chrome_open_tabs", "parameters": {"urls_to_open": ["https://a.b"]}}]},
            "needs_web",
        ),
        (
            {"evaluator": evaluator(expected={"type": "cloud_file", "path": "https://a", "dest": "a"})},
            "needs_web",
        ),
        ({"config": [{"type": "login", "parameters": {}}]}, "google_drive"),
        ({"evaluator": evaluator(result={"type": "googledrive_file"})}, "google_drive"),
        ({"related_apps": ["vs_code"]}, "app_missing"),
        ({"config": [{"type": "launch", "parameters": {"command": ["code", "a.py"]}}]}, "app_missing"),
        ({"config": [{"type": "levitate", "parameters": {}}]}, "setup_unsupported"),
        ({"evaluator": evaluator(result={"type": "open_tabs_info"})}, "getter_unsupported"),
        ({"evaluator": evaluator(func="compare_table")}, "metric_unsupported"),
    ],
)
def test_what_cannot_run_here_is_listed_with_its_reason(
    tmp_path: Path, changes: dict[str, Any], code: str
) -> None:
    report = read_one(tmp_path, **changes)
    assert report.tasks == []
    assert [(refusal.file, refusal.code) for refusal in report.refused] == [("os/t.json", code)]
    assert report.refused[0].sentence.endswith(".")


def test_a_file_that_is_no_json_does_not_sink_the_others(tmp_path: Path) -> None:
    read_one(tmp_path)
    (tmp_path / "os" / "broken.json").write_text("{")
    (tmp_path / "os" / "latin.json").write_bytes(b'{"id": "\xff"}')
    report = read(tmp_path)
    assert [task.id for task in report.tasks] == ["t"]
    assert {refusal.code for refusal in report.refused} == {"bad_file"}


def test_an_id_that_is_there_already_is_refused(tmp_path: Path) -> None:
    read_one(tmp_path)
    (tmp_path / "os" / "twice.json").write_text(json.dumps(TASK))
    assert read(tmp_path).refused == [
        Refusal("os/twice.json", "bad_file", "The task t is in os/t.json already.")
    ]


def test_a_checkout_its_evaluation_folder_and_its_examples_are_read_alike(tmp_path: Path) -> None:
    examples = tmp_path / "evaluation_examples" / "examples"
    (examples / "os").mkdir(parents=True)
    (examples / "os" / "t.json").write_text(json.dumps(TASK))
    (tmp_path / "evaluation_examples" / "test_all.json").write_text("{}")
    reports = [read(folder) for folder in (tmp_path, tmp_path / "evaluation_examples", examples)]
    assert reports[0] == reports[1] == reports[2]
    assert len(reports[0].tasks) == 1


def test_a_folder_without_tasks_is_no_task_set(tmp_path: Path) -> None:
    with pytest.raises(NotATaskSet):
        read(tmp_path)
    with pytest.raises(NotATaskSet, match="no folder"):
        read(tmp_path / "nowhere")


def test_every_file_of_osworld_is_a_task_or_has_its_reason(osworld_folder: Path) -> None:
    report = read(osworld_folder)
    files = list((osworld_folder / "examples").rglob("*.json"))
    codes = Counter(refusal.code for refusal in report.refused)
    assert len(report.tasks) + len(report.refused) == len(files)
    assert set(codes) <= set(get_args(ReasonCode))
    assert codes["bad_file"] == 0
    assert len(report.tasks) >= 40
    assert all(task.templates for task in report.tasks)
    assert len({task.digest for task in report.tasks}) == len(report.tasks)


def test_cleaned_tasks_of_osworld_stay_as_they_are(osworld_folder: Path) -> None:
    for task in read(osworld_folder).tasks:
        assert clean(task.data) == task.data
