import json
from pathlib import Path
from typing import Any

import pytest

from desktops.protocol.actions import Action, Done, Fail
from desktops.worker.checkers import CheckerBroken, Judgement, checker_digest, evaluate
from desktops.worker.checkers.metrics import METRICS
from desktops.worker.guest_client import Completed, GuestCommandTimeout, GuestUnreachable
from desktops.worker.task import Task, parse

from .fake_guest import FakeGuest


def task(**evaluator: Any) -> Task:
    return parse({"id": "t", "instruction": "Do it.", "evaluator": evaluator})


def says(text: str) -> dict[str, Any]:
    return {"type": "vm_command_line", "command": f"echo {text}", "shell": True}


def rule(text: str) -> dict[str, Any]:
    return {"type": "rule", "rules": {"expected": text}}


def judge(what: Task, guest: FakeGuest, folder: Path, last: Action | None = None) -> Judgement:
    return evaluate(what, guest, last or Done(), folder)  # type: ignore[arg-type]


@pytest.fixture
def two(guest: FakeGuest) -> FakeGuest:
    guest.commands = {"echo a": "a\n", "echo b": "b\n"}
    return guest


def test_one_metric_that_holds_is_one(two: FakeGuest, tmp_path: Path) -> None:
    found = judge(task(func="exact_match", result=says("a"), expected=rule("a\n")), two, tmp_path)
    assert found.reward == 1
    assert found.evidence[0].found == "a\n"
    assert found.evidence[0].expected == "a\n"
    assert found.evidence[0].getter == "vm_command_line"
    assert found.checker == "exact_match"
    assert found.checker_digest == checker_digest()


def test_and_ends_with_the_first_zero(two: FakeGuest, tmp_path: Path) -> None:
    what = task(
        func=["exact_match", "exact_match"],
        result=[says("a"), says("b")],
        expected=[rule("x"), rule("b\n")],
    )
    found = judge(what, two, tmp_path)
    assert found.reward == 0
    assert len(found.evidence) == 1


def test_and_is_the_mean_when_nothing_is_zero(two: FakeGuest, tmp_path: Path) -> None:
    what = task(func=["fuzzy_match", "exact_match"], result=says("a"), expected=[rule("ab"), rule("a\n")])
    assert 0 < judge(what, two, tmp_path).reward < 1


def test_or_is_one_as_soon_as_one_holds(two: FakeGuest, tmp_path: Path) -> None:
    what = task(
        func=["exact_match", "exact_match"],
        conj="or",
        result=[says("a"), says("b")],
        expected=[rule("x"), rule("b\n")],
    )
    assert judge(what, two, tmp_path).reward == 1


def test_or_goes_on_after_a_missing_file(two: FakeGuest, tmp_path: Path) -> None:
    what = task(
        func=["file_contains", "exact_match"],
        conj="or",
        result=[{"type": "vm_file", "path": "/home/user/no", "dest": "no"}, says("b")],
        expected=[rule("x"), rule("b\n")],
    )
    assert judge(what, two, tmp_path).reward == 1


@pytest.mark.parametrize(("last", "reward"), [(Fail(), 1.0), (Done(), 0.0), (None, 0.0)])
def test_an_infeasible_task_wants_to_be_given_up(
    guest: FakeGuest, tmp_path: Path, last: Action | None, reward: float
) -> None:
    found = evaluate(task(func="infeasible"), guest, last, tmp_path)  # type: ignore[arg-type]
    assert found.reward == reward
    assert found.evidence[0].note


def test_giving_up_a_feasible_task_is_zero_and_reads_nothing(two: FakeGuest, tmp_path: Path) -> None:
    what = task(func="exact_match", result=says("a"), expected=rule("a\n"))
    assert judge(what, two, tmp_path, Fail()).reward == 0
    assert two.ran == []


def test_a_missing_artefact_is_an_honest_zero_with_a_note(guest: FakeGuest, tmp_path: Path) -> None:
    what = task(
        func="file_contains",
        result={"type": "vm_file", "path": "/home/user/no.txt", "dest": "no.txt"},
        expected={"type": "rule", "rules": {"expected": ["x"]}},
    )
    found = judge(what, guest, tmp_path)
    assert found.reward == 0
    assert "/home/user/no.txt" in found.evidence[0].note


def test_a_spoilt_artefact_is_an_honest_zero(guest: FakeGuest, tmp_path: Path) -> None:
    guest.files["/home/user/a.json"] = b"{nonsense"
    what = task(
        func="check_json_settings",
        result={"type": "vm_file", "path": "/home/user/a.json", "dest": "a.json"},
        expected={"type": "rule", "rules": {"expected": {"a": 1}}},
    )
    found = judge(what, guest, tmp_path)
    assert found.reward == 0
    assert "not JSON" in found.evidence[0].note


def test_a_desktop_out_of_reach_is_no_verdict(guest: FakeGuest, tmp_path: Path) -> None:
    guest.gone = True
    with pytest.raises(GuestUnreachable):
        judge(task(func="exact_match", result=says("a"), expected=rule("a\n")), guest, tmp_path)


def test_a_command_that_hangs_is_a_broken_checker(guest: FakeGuest, tmp_path: Path) -> None:
    guest.commands["echo a"] = GuestCommandTimeout("still running")
    with pytest.raises(CheckerBroken):
        judge(task(func="exact_match", result=says("a"), expected=rule("a\n")), guest, tmp_path)


def test_a_metric_that_breaks_is_a_broken_checker(
    two: FakeGuest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(found: object, expected: object) -> float:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setitem(METRICS, "breaks", breaks)
    with pytest.raises(CheckerBroken, match="division by zero"):
        judge(task(func="breaks", result=says("a"), expected=rule("a")), two, tmp_path)


def test_an_unknown_metric_or_getter_is_a_broken_checker(guest: FakeGuest, tmp_path: Path) -> None:
    with pytest.raises(CheckerBroken, match="no_such"):
        judge(task(func="no_such", result=says("a")), guest, tmp_path)
    with pytest.raises(CheckerBroken, match="nowhere"):
        judge(task(func="exact_match", result={"type": "nowhere"}, expected=rule("a")), guest, tmp_path)


def test_artefacts_are_kept_by_their_digest(guest: FakeGuest, tmp_path: Path) -> None:
    guest.files["/home/user/a.txt"] = b"one\n"
    what = task(
        func=["file_contains", "check_text"],
        result={"type": "vm_file", "path": "/home/user/a.txt", "dest": "a.txt"},
        expected=[
            {"type": "rule", "rules": {"expected": ["one"]}},
            {"type": "rule", "rules": {"text": "one"}},
        ],
    )
    found = judge(what, guest, tmp_path)
    assert found.reward == 1
    sha = found.evidence[1].artefacts["a.txt"]
    assert found.files[sha].read_bytes() == b"one\n"


def test_long_values_are_cut_in_the_evidence(guest: FakeGuest, tmp_path: Path) -> None:
    guest.commands["echo a"] = Completed(0, "x" * 100_000, "")
    found = judge(task(func="exact_match", result=says("a"), expected=rule("a")), guest, tmp_path)
    assert len(json.dumps(found.evidence[0].model_dump())) < 10_000


def test_every_part_of_the_evidence_is_json(guest: FakeGuest, tmp_path: Path) -> None:
    guest.files["/home/user/d/a.txt"] = b""
    what = task(
        func="check_folder_names",
        result={"type": "list_directory", "path": "/home/user/d"},
        expected={"type": "rule", "rules": {"include": ["a.txt"]}},
    )
    assert json.loads(judge(what, guest, tmp_path).evidence[0].model_dump_json())["reward"] == 1
