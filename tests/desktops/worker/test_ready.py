"""A few desktops stand ready for who asks next: as fresh as any, nobody's until then, and gone when nobody asks."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from desktops.protocol.attempt import TemplatePin
from desktops.worker import ready as module
from desktops.worker import session
from desktops.worker.__main__ import serve
from desktops.worker.config import Config
from desktops.worker.engine.base import EngineError, warm_state
from desktops.worker.ready import Ready
from desktops.worker.spool import SpoolFull
from desktops.worker.testing import TOKEN, ConsoleDouble
from desktops.worker.testing_desktop import IMAGE, FakeSavingEngine
from desktops.worker.warm import Warmer

from .orders import order
from .table import Table, kinds, one

BASIC = TemplatePin(name=IMAGE.name, version=IMAGE.version, digest=IMAGE.digest)
LARGE = BASIC.model_copy(update={"memory_mb": 4096})
IMAGES = [IMAGE.digest]


@pytest.fixture(autouse=True)
def memory(tmp_path, monkeypatch):
    """A machine that has enough of it."""
    told = tmp_path / "meminfo"
    told.write_text("MemTotal: 9000000 kB\nMemAvailable: 8000000 kB\n")
    monkeypatch.setattr(module, "MEMORY", told)
    return told


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Two may stand ready, on a machine with four slots."""
    monkeypatch.setattr(session, "INSIST_SECONDS", 0.02)
    table = Table(tmp_path, FakeSavingEngine())
    table.ready = Ready(table.engine, table.states, tmp_path, most=2)
    table.ready.free_slots = lambda: 4
    Warmer(table.engine, table.states, table.closing).keep_up(IMAGES)
    yield table
    table.ready.close()
    assert table.engine.list_owned() == []
    table.spool.close()


def ask(table, template=BASIC, times=1):
    """Somebody asks for a desktop while none stands ready."""
    for _ in range(times):
        with table.ready.take(template) as computer:
            assert computer is None


def standing(table, template=BASIC):
    """Have one of it stand ready; its desktop."""
    ask(table, template)
    table.ready.keep_up(IMAGES)
    return table.engine.made[-1]


def test_none_stands_before_somebody_has_asked(table):
    table.ready.keep_up(IMAGES)
    assert len(table.ready) == 0


@pytest.mark.parametrize(("asked", "stand"), [(1, 1), (2, 2), (5, 2)])
def test_as_many_stand_as_were_asked_for_within_the_bound(table, asked, stand):
    ask(table, times=asked)
    for _ in range(2):
        table.ready.keep_up(IMAGES)
        assert len(table.ready) == stand


def test_no_more_stand_than_slots_are_free(table):
    table.ready.free_slots = lambda: 1
    ask(table, times=2)
    table.ready.keep_up(IMAGES)
    assert len(table.ready) == 1


@pytest.mark.parametrize("template", [BASIC.model_copy(update={"egress": "open"}), BASIC])
def test_none_stands_that_cannot_come_from_a_saved_one(table, template):
    if template == BASIC:
        table.engine.forget(warm_state(BASIC.digest))
    ask(table, template)
    table.ready.keep_up(IMAGES)
    assert len(table.ready) == 0


def test_an_attempt_is_played_on_the_one_that_stands_ready(table):
    desk = standing(table)
    before, made = datetime.now(UTC), len(table.engine.made)
    limits = []
    table.engine.on_call = lambda desk, path: limits.append((desk.paid_until, desk.silence_limit))
    playing = table.made()
    playing.run()
    records = table.records()
    started = one(records, "computer_started")
    assert started.computer == desk.computer
    assert len(table.engine.made) == made
    assert started.at >= before, "nobody pays for the time before"
    assert started.from_state == warm_state(IMAGE.digest)
    assert limits[-1] == (playing._paid_until.timestamp(), 60)
    assert (one(records, "verdict").reward, records[-1].ok) == (1, True)
    assert kinds(records)[:2] == ["computer_started", "computer_ready"]
    assert len(table.ready) == 0


def test_another_template_does_not_get_it(table):
    desk = standing(table, LARGE)
    records = table.play()
    assert one(records, "computer_started").computer != desk.computer
    assert len(table.ready) == 1


def test_an_attempt_that_starts_from_a_saved_setup_leaves_it(table):
    desk = standing(table)
    table.play(setup_state="setup-1")
    assert one(table.records(), "computer_started").computer == desk.computer, "nothing was saved yet"
    table.ready.keep_up(IMAGES)
    table.play(setup_state="setup-1")
    assert one(table.records(), "setup_done").from_state == "setup-1"
    assert len(table.ready) == 2, "as many as asked for one from the beginning"


def test_one_that_does_not_answer_is_not_handed_out(table):
    standing(table).fall_silent()
    records = table.play()
    assert records[-1].ok
    assert len(table.ready) == 0


def test_they_go_when_nobody_has_asked_lately(table, monkeypatch):
    standing(table)
    monkeypatch.setattr(module, "LATELY_SECONDS", 0.0)
    table.ready.keep_up(IMAGES)
    assert (len(table.ready), table.engine.desks) == (0, {})


def test_they_go_with_their_image(table):
    standing(table)
    table.ready.keep_up([])
    assert table.engine.desks == {}
    standing(table)
    table.ready.drop(IMAGE.digest)
    assert table.engine.desks == {}
    table.ready.keep_up(IMAGES)
    assert table.engine.desks == {}, "whoever asked did so before"


@pytest.mark.parametrize("what", ["memory", "disk"])
def test_they_go_when_memory_or_disk_is_short(table, memory, monkeypatch, what):
    standing(table)
    if what == "memory":
        memory.write_text("MemAvailable: 1000000 kB\n")
    else:
        monkeypatch.setattr(module, "LEAST_FREE", 1 << 60)
    for _ in range(2):
        table.ready.keep_up(IMAGES)
        assert table.engine.desks == {}


def test_they_make_room_for_what_is_started_instead(table):
    standing(table)
    table.ready.free_slots = lambda: 0
    ask(table, LARGE)
    assert table.engine.desks == {}


def test_a_sweep_leaves_them_alone_also_while_one_is_handed_out(table):
    desk = standing(table)
    assert table.engine.sweep(table.ready).removed == []
    with table.ready.take(BASIC) as computer:
        assert table.engine.sweep(table.ready).removed == []
    assert table.engine.sweep(table.ready).removed == [desk.computer], "whoever has it says so by now"
    computer.stop()


def test_one_that_could_not_be_handed_over_goes(table, monkeypatch):
    desk = standing(table)

    def full(*anything):
        raise SpoolFull("the disk is full")

    playing = table.made()
    monkeypatch.setattr(playing._recorder, "intend", full)
    playing.run()
    assert kinds(table.records()) == ["attempt_ended"]
    assert desk.gone


def test_one_that_cannot_be_removed_is_left_to_the_sweep(table):
    desk = standing(table)
    table.engine.refuse_removals = 1
    table.ready.drop(IMAGE.digest)
    assert table.engine.sweep(table.ready).removed == [desk.computer]


def test_one_that_cannot_be_made_is_made_later(table, monkeypatch):
    real = table.engine.create

    def refuse(spec):
        raise EngineError("runc restore failed")

    monkeypatch.setattr(table.engine, "create", refuse)
    ask(table)
    table.ready.keep_up(IMAGES)
    assert len(table.ready) == 0
    monkeypatch.setattr(table.engine, "create", real)
    table.ready.keep_up(IMAGES)
    assert len(table.ready) == 1


async def test_a_worker_tells_how_many_stand_ready_and_leaves_none(tmp_path):
    engine, stop = FakeSavingEngine(), asyncio.Event()
    async with ConsoleDouble() as console:
        config = Config(console.url, TOKEN, "w", tmp_path / "worker", "fake", slots=2)
        working = asyncio.create_task(serve(config, engine=engine, stop=stop))
        await console.offer("a", order())
        assert (await console.ended("a"))["ok"]
        await console.until(lambda: console.heartbeats[-1].ready == 1, 60)
        (stands,) = engine.desks
        await console.offer("b", order(attempt_id="at-2"))
        assert (await console.ended("b"))["ok"]
        assert console.records("b")[0]["computer"] == stands
        stop.set()
        await working
    assert engine.desks == {}
