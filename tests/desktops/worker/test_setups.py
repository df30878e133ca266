"""Attempts that could start from the same setup wait for the one that makes it, without a desktop."""

from __future__ import annotations

import threading

import pytest

from desktops.worker import attest, session
from desktops.worker.testing_desktop import FakeSavingEngine

from .orders import TASK
from .table import Table, kinds, one
from .test_host import until

SECONDS = 60
SLOW = TASK | {"config": [{"type": "execute", "parameters": {"command": ["true"]}}]}
QUICK = TASK | {
    "config": [{"type": "upload_file", "parameters": {"files": [{"path": "/home/user/x", "text": "x"}]}}]
}


class Playing:
    """Attempts in threads of their own; the first of them stands in the middle of its setup until it is let go."""

    def __init__(self, folder):
        self.table = Table(folder, FakeSavingEngine())
        self.table.engine.on_call = self._on_call
        self.in_setup, self.go_on = threading.Event(), threading.Event()
        self.breaks = False
        self.runs, self.threads = [], []

    def _on_call(self, desk, path):
        if path in ("/run", "/file") and desk is self.table.engine.made[0] and not self.in_setup.is_set():
            self.in_setup.set()
            assert self.go_on.wait(SECONDS)
            if self.breaks:
                desk.die()

    def begin(self, count=1, *, task=SLOW, name="setup-1"):
        for _ in range(count):
            self.runs.append(self.table.made(task=task, setup_state=name))
            self.threads.append(threading.Thread(target=self.runs[-1].run))
            self.threads[-1].start()

    def begin_one_that_sets_up(self, task=SLOW):
        self.begin(task=task)
        assert self.in_setup.wait(SECONDS)

    def until_waiting(self, count):
        until(lambda: self.table.states.setups.waiting("setup-1") == count, SECONDS)

    def until_ended(self, number):
        """Until that one has, and the first stands in its setup still."""
        self.threads[number].join(SECONDS)
        assert not self.threads[number].is_alive()
        assert self.threads[0].is_alive()

    def end(self):
        """Let the first go on; the records of each, once all have ended."""
        self.go_on.set()
        for thread in self.threads:
            thread.join(SECONDS)
        return [self.table.records(number) for number in range(len(self.runs))]


@pytest.fixture
def playing(tmp_path, monkeypatch):
    monkeypatch.setattr(session, "INSIST_SECONDS", 0.02)
    monkeypatch.setattr(attest, "PAUSE_SECONDS", 0.001)
    playing = Playing(tmp_path)
    yield playing
    playing.go_on.set()
    for thread in playing.threads:
        thread.join(SECONDS)
    playing.table.spool.close()


def from_states(played):
    return [one(records, "setup_done").from_state for records in played]


def test_one_sets_up_and_the_others_start_from_that(playing):
    playing.begin_one_that_sets_up()
    playing.begin(3)
    playing.until_waiting(3)
    assert len(playing.table.engine.made) == 1, "who waits has no desktop"
    played = playing.end()
    assert from_states(played) == ["", "setup-1", "setup-1", "setup-1"]
    assert all(records[-1].ok for records in played)
    assert [kinds(records).count("state_saved") for records in played] == [1, 0, 0, 0]
    assert [kinds(records).count("setup_awaited") for records in played] == [0, 1, 1, 1]


def test_nobody_waits_for_another_setup(playing):
    playing.begin_one_that_sets_up()
    playing.begin(name="setup-2")
    playing.until_ended(1)
    assert from_states(playing.end()) == ["", ""]


def test_nobody_waits_for_a_setup_that_only_writes_files(playing):
    playing.begin_one_that_sets_up(QUICK)
    playing.begin(task=QUICK)
    playing.until_ended(1)
    assert from_states(playing.end()) == ["", ""]


def test_when_the_first_breaks_the_others_set_up_for_themselves(playing):
    playing.breaks = True
    playing.begin_one_that_sets_up()
    playing.begin(2)
    playing.until_waiting(2)
    first, *others = playing.end()
    assert first[-1].invalid_reasons == ["desktop_lost"]
    assert all(records[-1].ok for records in others)
    assert from_states(others).count("") >= 1
    assert playing.table.states.has("setup-1"), "one of them has saved it"


def test_nobody_waits_again_for_what_cannot_be_saved(playing):
    playing.table.engine.refuse_saves = 99
    playing.begin_one_that_sets_up()
    playing.begin()
    playing.until_waiting(1)
    assert from_states(playing.end()) == ["", ""]
    setups = playing.table.states.setups
    assert not setups.begin("setup-1", go_on := threading.Event())
    assert go_on.is_set()


def test_when_the_first_is_stopped_another_is_waited_for(playing):
    playing.begin_one_that_sets_up()
    playing.begin()
    playing.until_waiting(1)
    playing.runs[0].end("stopped")
    first, other = playing.end()
    assert (first[-1].stopped, other[-1].ok) == (True, True)
    playing.table.states.forget_now("setup-1")
    assert playing.table.states.setups.begin("setup-1", threading.Event()), "it was not in vain"
    playing.table.states.setups.end("setup-1", in_vain=False)


def test_who_is_stopped_while_waiting_ends_at_once_and_had_no_desktop(playing):
    playing.begin_one_that_sets_up()
    playing.begin()
    playing.until_waiting(1)
    playing.runs[1].end("stopped")
    playing.until_ended(1)
    first, (awaited, ended) = playing.end()
    assert awaited.kind == "setup_awaited"
    assert (ended.kind, ended.stopped, ended.invalid_reasons) == ("attempt_ended", True, [])
    assert first[-1].ok


def test_nobody_waits_for_ever(playing, monkeypatch):
    monkeypatch.setattr(session, "PATIENCE_SECONDS", 0.01)
    playing.begin_one_that_sets_up()
    playing.begin()
    playing.until_ended(1)
    assert from_states(playing.end()) == ["", ""]
