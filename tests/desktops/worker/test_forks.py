"""A prefix is played once and saved; its forks go on from there; a setup is saved for the next that needs it."""

from __future__ import annotations

import threading

import pytest

from desktops.worker import attest, session
from desktops.worker.engine.base import EngineError
from desktops.worker.testing_desktop import IMAGE, TYPED, FakeSavingEngine

from .orders import TASK
from .table import Table, kinds, one

START = ["computer_started", "computer_ready"]
END = ["computer_stopped"]
JUDGED = ["verifying", "verdict", *END, "attempt_ended"]
SETUP = [{"type": "execute", "parameters": {"command": ["true"]}}]
REST = [{"action": "type", "text": "hel"}, {"action": "type", "text": "lo"}, {"action": "done"}]


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "INSIST_SECONDS", 0.02)
    monkeypatch.setattr(attest, "PAUSE_SECONDS", 0.001)
    table = Table(tmp_path, FakeSavingEngine())
    yield table
    table.spool.close()


@pytest.fixture
def fork(table):
    """Play a prefix, and give what an order of a fork says of it."""

    def play(**changes):
        saved = one(table.play_prefix(**changes), "state_saved")
        parent = saved.attestation.model_dump()
        return {"state": saved.name, "parent": parent, "screenshot": parent["screenshot"]}

    return play


def test_a_prefix_is_set_up_played_and_saved(table):
    records = table.play_prefix()
    assert kinds(records) == [*START, "setup_done", "step", "state_saved", *END, "prefix_ended"]
    step, saved, ended = one(records, "step"), one(records, "state_saved"), records[-1]
    assert (step.number, step.prefix) == (1, True)
    assert (saved.name, saved.parent) == ("prefix-1", "")
    assert saved.computer == one(records, "computer_started").computer
    assert saved.attestation.processes == ["Xvnc", "openbox"]
    assert saved.attestation.screenshot == step.screenshot
    assert (ended.ok, ended.invalid_reasons, ended.stopped) == (True, [], False)
    assert table.states.has("prefix-1")
    assert not list(table.states._folder.glob("*/files/*"))


def test_a_fork_goes_on_where_its_prefix_ended(table, fork):
    records = table.play(fork=fork(), prefix_steps=1, recipe=REST)
    assert kinds(records) == [*START, "forked", "step", "step", *JUDGED]
    forked, steps = one(records, "forked"), [record for record in records if record.kind == "step"]
    assert (forked.state, forked.differences) == ("prefix-1", [])
    assert [(step.number, step.prefix) for step in steps] == [(2, False), (3, False)]
    assert one(records, "verdict").reward == 1
    assert (records[-1].ok, records[-1].steps) == (True, 3)


def test_forks_of_one_prefix_part(table, fork):
    parent = fork()
    right = table.play(fork=parent, prefix_steps=1, recipe=REST)
    wrong = table.play(fork=parent, prefix_steps=1, recipe=[REST[0], {"action": "type", "text": "p"}])
    assert [one(records, "verdict").reward for records in (right, wrong)] == [1, 0]


def test_a_fork_whose_prefix_was_everything_is_judged_as_it_is(table, fork):
    done = [{"action": "type", "text": "hello"}, {"action": "done"}]
    parent = fork(recipe=done)
    records = table.play(fork=parent, prefix_steps=2, recipe=[*done, {"action": "type", "text": "more"}])
    assert kinds(records) == [*START, "forked", *JUDGED]
    assert (one(records, "verdict").reward, records[-1].steps) == (1, 2)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda desk: desk.actions.append({}), "screen: 2,073,600 pixels differ"),
        (lambda desk: desk.processes.remove("openbox"), "processes: missing openbox"),
        (lambda desk: desk.processes.append("Xvnc"), "processes: in addition Xvnc"),
        (lambda desk: desk.files.update({TYPED: b"else"}), "files: names or contents"),
    ],
)
def test_a_fork_that_is_not_like_its_parent_is_invalid(table, fork, change, told):
    parent = fork()
    change(table.engine.saved["prefix-1"][1])
    records = table.play(fork=parent, prefix_steps=1, recipe=REST)
    assert kinds(records) == [*START, "forked", *END, "attempt_ended"]
    assert told in one(records, "forked").differences[0]
    assert records[-1].invalid_reasons == ["fork_mismatch"]
    assert told in records[-1].detail


def test_a_fork_of_what_is_not_here_starts_no_desktop(table, fork):
    parent = fork()
    table.engine.forget("prefix-1")
    records = table.play(fork=parent, prefix_steps=1, recipe=REST)
    assert kinds(records) == ["attempt_ended"]
    assert records[-1].invalid_reasons == ["desktop_start_failed"]
    assert "prefix-1" in records[-1].detail


def test_a_prefix_that_cannot_be_saved_says_so_and_keeps_nothing(table):
    table.engine.refuse_saves = 9
    records = table.play_prefix()
    assert kinds(records) == [*START, "setup_done", "step", *END, "prefix_ended"]
    assert (records[-1].ok, records[-1].invalid_reasons) == (False, ["worker_fault"])
    assert "the checkpoint failed" in records[-1].detail
    assert table.states.held() == []


def test_a_prefix_on_a_desktop_that_never_rests_is_not_saved(table):
    def change(desk, path):
        if path == "/settle":
            desk.files["/home/user/log"] = desk.files.get("/home/user/log", b"") + b"."

    table.engine.on_call = change
    records = table.play_prefix()
    assert records[-1].invalid_reasons == ["not_ready"]
    assert "never rests" in records[-1].detail
    assert table.states.held() == []


def test_a_prefix_whose_desktop_dies_is_lost(table):
    table.engine.on_call = lambda desk, path: desk.die() if path == "/act" else None
    ended = table.play_prefix()[-1]
    assert (ended.ok, ended.invalid_reasons) == (False, ["desktop_lost"])


def test_a_prefix_can_be_stopped(table):
    playing = table.prefix(recipe=[{"action": "move", "x": 1, "y": 1}] * 9)
    table.engine.on_call = lambda desk, path: playing.end("stopped") if path == "/act" else None
    playing.run()
    ended = table.records()[-1]
    assert (ended.ok, ended.stopped, ended.invalid_reasons) == (False, True, [])


def test_a_setup_is_played_once_and_saved_for_the_next(table):
    task = TASK | {"config": SETUP}
    cold = table.play(task=task, setup_state="setup-1")
    assert kinds(cold)[:5] == [*START, "setup_done", "state_saved", "step"]
    assert (one(cold, "setup_done").steps, one(cold, "setup_done").from_state) == (1, "")
    assert one(cold, "computer_started").from_state == ""
    assert (one(cold, "state_saved").name, one(cold, "state_saved").attestation) == ("setup-1", None)
    warm = table.play(task=task, setup_state="setup-1")
    assert kinds(warm)[:4] == [*START, "setup_done", "step"]
    assert (one(warm, "setup_done").steps, one(warm, "setup_done").from_state) == (0, "setup-1")
    assert one(warm, "computer_started").from_state == "setup-1"
    assert [one(records, "verdict").reward for records in (cold, warm)] == [1, 1]


def test_a_checker_reads_what_a_saved_setup_left_on_the_worker(table):
    task = TASK | {
        "config": [{"type": "execute", "parameters": {"command": ["cat", "/x"], "stdout": "seen.txt"}}],
        "evaluator": {
            "func": "exact_match",
            "result": {"type": "cache_file", "path": "seen.txt"},
            "expected": {"type": "rule", "rules": {"expected": "before"}},
        },
    }
    table.engine.on_call = lambda desk, path: desk.files.update({"/x": b"before"})
    parent = one(table.play_prefix(task=task, setup_state="setup-1"), "setup_done")
    assert parent.from_state == ""
    table.play_prefix(task=task, setup_state="setup-1", state="prefix-2")
    for name in ("setup-1", "prefix-1", "prefix-2"):
        assert (table.states._folder / name / "files" / "seen.txt").read_text() == "before"


def test_a_prefix_starts_from_the_saved_setup_and_names_it_as_parent(table):
    table.play(setup_state="setup-1")
    records = table.play_prefix(setup_state="setup-1")
    assert one(records, "setup_done").from_state == "setup-1"
    assert one(records, "state_saved").parent == "setup-1"


def test_a_setup_that_cannot_be_saved_harms_nothing(table):
    table.engine.refuse_saves = 9
    records = table.play(setup_state="setup-1")
    assert "state_saved" not in kinds(records)
    assert one(records, "verdict").reward == 1
    assert table.states.held() == []


def test_a_saved_setup_that_is_of_no_use_goes_and_is_made_anew(table, monkeypatch):
    table.play(setup_state="setup-1")
    real = table.engine.create

    def create(spec):
        if spec.state:
            raise EngineError("runc restore failed")
        return real(spec)

    monkeypatch.setattr(table.engine, "create", create)
    records = table.play(setup_state="setup-1")
    assert one(records, "setup_done").from_state == ""
    assert one(records, "state_saved").name == "setup-1"
    assert records[-1].ok


def test_of_two_attempts_at_once_one_saves_the_setup(table, monkeypatch):
    inside, go_on = threading.Event(), threading.Event()
    real = table.engine.save

    def slow_save(desk, name, *, resume):
        inside.set()
        assert go_on.wait(10)
        return real(desk, name, resume=resume)

    monkeypatch.setattr(table.engine, "save", slow_save)
    first = table.made(setup_state="setup-1")
    thread = threading.Thread(target=first.run)
    thread.start()
    assert inside.wait(10)
    second = table.made(setup_state="setup-1")
    other = threading.Thread(target=second.run)
    other.start()
    other.join(20)
    go_on.set()
    thread.join(20)
    saved = [kinds(table.records(number)).count("state_saved") for number in (0, 1)]
    assert saved == [1, 0]
    assert table.records(0)[-1].ok
    assert table.records(1)[-1].ok


def test_an_engine_that_saves_nothing_sets_up_each_time(tmp_path):
    plain = Table(tmp_path)
    for _ in range(2):
        records = plain.play(setup_state="setup-1")
        assert one(records, "setup_done").from_state == ""
        assert records[-1].ok
    assert plain.play_prefix()[-1].invalid_reasons == ["worker_fault"]
    plain.spool.close()


def test_an_image_that_is_gone_is_named_by_a_prefix_too(table):
    ended = table.play_prefix(template={"name": "x", "version": 1, "digest": f"{IMAGE.digest[:-1]}1"})[-1]
    assert ended.invalid_reasons == ["desktop_start_failed"]


def test_no_copies_are_made_of_what_was_played_on_a_machine_that_could_not_keep_up(table):
    def never_rests(desk, path):
        desk.restless_ms = 9000

    table.engine.on_call = never_rests
    records = table.play_prefix()
    assert records[-1].invalid_reasons == ["not_ready"]
    assert "state_saved" not in [record.kind for record in records]
