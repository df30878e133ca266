"""A computer that somebody has opened, on made-up desktops: it does what it is asked, once, until it is ended."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from desktops.protocol import messages
from desktops.worker import holding
from desktops.worker.testing_desktop import FakeDesk, FakeSavingEngine

from .table import Table, kinds, one


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setattr(holding, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(holding, "PATIENCE_SECONDS", 0.1)
    table = Table(tmp_path, FakeSavingEngine())
    yield table
    table.spool.close()


class Held:
    def __init__(self, table, run) -> None:
        self.table, self.run = table, run
        self.thread = threading.Thread(target=run.run)

    def told(self) -> list[str]:
        items = self.table.spool.after(0, limit=500)
        return [str(item.record) for item in items if item.assignment == self.table.taken[-1]]

    def until(self, what: str, count: int = 1) -> None:
        wait = threading.Event()
        for _ in range(1000):
            if sum(what in record for record in self.told()) >= count:
                return
            wait.wait(0.02)
        raise AssertionError(f"{what} did not come: {self.told()}")

    def close(self) -> None:
        self.run.end("closed")
        self.thread.join(20)
        assert not self.thread.is_alive()

    def ask(self, ask: str, do: messages.Save | messages.MakeImage) -> None:
        self.run.ask(messages.Ask(ask=ask, assignment="a", epoch=1, do=do))

    @property
    def desk(self) -> FakeDesk:
        (desk,) = self.table.engine.desks.values()
        return desk


@pytest.fixture
def open_one(table) -> Iterator[Callable[..., Held]]:
    held: list[Held] = []

    def start(**changes) -> Held:
        opened = Held(table, table.computer(**changes))
        held.append(opened)
        opened.thread.start()
        opened.until("computer_ready")
        return opened

    yield start
    for opened in held:
        opened.close()


def test_it_is_there_until_it_is_ended(table, open_one):
    held = open_one()
    held.close()
    records = table.records()
    assert kinds(records) == ["computer_started", "computer_ready", "computer_stopped", "hold_ended"]
    assert (records[-1].ok, records[-1].stopped, records[-1].invalid_reasons) == (True, True, [])


def test_money_that_is_used_up_is_told_as_that(table, open_one):
    held = open_one()
    held.run.end("paid until noon", "paid_until_reached")
    held.thread.join(20)
    last = table.records()[-1]
    assert (last.ok, last.stopped, last.invalid_reasons) == (False, False, ["paid_until_reached"])


@pytest.mark.parametrize(("what", "reason"), [("die", "desktop_lost"), ("silent", "guest_unreachable")])
def test_a_desktop_that_goes_away_ends_it(table, open_one, what, reason):
    held = open_one()
    if what == "die":
        held.desk.die()
    else:
        held.desk.silent = True
    held.thread.join(20)
    assert table.records()[-1].invalid_reasons == [reason]


def test_it_is_saved_once_however_often_it_is_asked_and_goes_on(table, open_one):
    held = open_one()
    held.desk.files["/home/user/note.txt"] = b"half done"
    for _ in range(3):
        held.ask("ask-1", messages.Save(name="saved-1"))
    held.until("answered")
    held.ask("ask-2", messages.Save(name="saved-2"))
    held.until("answered", 2)
    held.close()
    records = table.records()
    assert [record.kind for record in records[2:-2]] == ["state_saved", "answered"] * 2
    assert [record.ask for record in records if record.kind == "answered"] == ["ask-1", "ask-2"]
    assert set(table.engine.saved) == {"saved-1", "saved-2"}
    assert records[2].attestation is not None


def test_another_starts_from_what_was_saved(table, open_one):
    held = open_one()
    held.desk.files["/home/user/note.txt"] = b"half done"
    held.ask("ask-1", messages.Save(name="saved-1"))
    held.until("answered")
    held.close()
    other = open_one(state="saved-1")
    assert other.desk.files["/home/user/note.txt"] == b"half done"


def test_a_saved_desktop_that_is_not_here_fails_the_start(table):
    held = Held(table, table.computer(state="saved-9"))
    held.run.run()
    last = table.records()[-1]
    assert last.invalid_reasons == ["desktop_start_failed"]
    assert "is not on this machine" in last.detail


def test_what_cannot_be_saved_is_answered_with_why_and_it_goes_on(table, open_one):
    held = open_one()
    table.engine.refuse_saves = 100
    held.ask("ask-1", messages.Save(name="saved-1"))
    held.until("answered")
    table.engine.refuse_saves = 0
    held.ask("ask-2", messages.Save(name="saved-1"))
    held.until("answered", 2)
    held.close()
    answers = [record for record in table.records() if record.kind == "answered"]
    assert [answer.error for answer in answers] == ["the checkpoint failed", ""]


def test_an_image_is_made_of_it(table, open_one):
    held = open_one()
    held.ask("ask-1", messages.MakeImage(template="mine", version=3))
    held.until("answered")
    held.close()
    (made,) = table.engine.made_images
    answer = one(table.records(), "answered")
    assert answer.image == messages.WorkerImage(name="mine", version=3, digest=made.digest)


def test_an_image_of_which_no_desktop_gets_ready_is_not_kept(table, open_one):
    held = open_one()
    first = held.desk

    def break_others(desk: FakeDesk, path: str) -> None:
        if desk is not first:
            desk.die()

    table.engine.on_call = break_others
    held.ask("ask-1", messages.MakeImage(template="mine", version=1))
    held.until("answered")
    assert held.desk is first
    held.close()
    assert "does not get ready" in one(table.records(), "answered").error
    assert table.engine.made_images == []
    assert len(table.engine.made) == 2


def test_an_engine_that_makes_no_images_says_so(tmp_path, table):
    plain = Table(tmp_path / "plain")
    held = Held(plain, plain.computer())
    held.thread.start()
    held.until("computer_ready")
    held.ask("ask-1", messages.MakeImage(template="mine", version=1))
    held.until("answered")
    held.close()
    assert "it needs containers" in one(plain.records(), "answered").error
    plain.spool.close()
