"""Saved desktops are told to the console, and forgotten when it says so."""

from __future__ import annotations

import shutil
import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from desktops.protocol.attempt import Attestation, PrefixEnded, StateSaved
from desktops.worker.blobs import BlobStore
from desktops.worker.computer import Computer
from desktops.worker.engine.base import DeskSpec, EngineError
from desktops.worker.recorder import Recorder
from desktops.worker.spool import Spool
from desktops.worker.states import NoRoom, States
from desktops.worker.testing_desktop import IMAGE, FakeEngine, FakeSavingEngine

DIGEST, RECIPE = "sha256:" + "a" * 64, "sha256:" + "b" * 64
MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def engine():
    return FakeSavingEngine()


@pytest.fixture
def states(engine, tmp_path):
    return States(engine, tmp_path / "states", limit_mb=1000)


@pytest.fixture
def save(engine, states):
    """Save a desktop that has just been started, under that name."""

    def save(name, **kept):
        with Computer(engine, DeskSpec(computer=str(uuid.uuid4()), image=IMAGE.digest)) as computer:
            return states.save(computer, name, resume=False, **kept)

    return save


def names(states):
    return sorted(state.name for state in states.held())


def test_all_saved_desktops_are_told(states, save):
    save("prefix-1")
    (held,) = states.held()
    assert (held.name, held.size_bytes, held.image) == ("prefix-1", 100 << 20, IMAGE.digest)
    assert held.digest.startswith("sha256:")
    assert held.made_at is not None
    assert held.used_at is None
    assert states.limit_mb == 1000


def test_states_that_cannot_be_listed_are_not_said_to_be_none(states, engine, monkeypatch):
    def broken():
        raise EngineError("the disk is away")

    monkeypatch.setattr(engine, "states", broken)
    assert states.held() is None


def test_a_forgotten_state_goes_with_all_that_belongs_to_it(states, engine, save, tmp_path, monkeypatch):
    save("prefix-1", screen=b"a screen")
    gone = threading.Event()
    clear = states._clear_beside
    monkeypatch.setattr(states, "_clear_beside", lambda name: (clear(name), gone.set()))
    states.forget("prefix-1")
    assert gone.wait(10)
    assert states.held() == []
    assert states.screen("prefix-1") is None
    assert list((tmp_path / "states").iterdir()) == []


def test_a_saved_desktop_keeps_its_screen_and_what_its_setup_left(states, save, tmp_path):
    left, again = tmp_path / "left", tmp_path / "again"
    left.mkdir()
    again.mkdir()
    (left / "listing.txt").write_text("before")
    save("prefix-1", files=left, screen=b"a screen")
    states.lay_out("prefix-1", again)
    assert (again / "listing.txt").read_text() == "before"
    assert states.screen("prefix-1") == b"a screen"


def test_the_least_recently_used_that_can_be_made_anew_leaves_to_make_room(states, engine, save):
    engine.state_bytes = 300 << 20
    for name in ("prefix-1", "setup-1", "setup-2"):
        save(name)
    Computer(engine, DeskSpec(computer="c", image=IMAGE.digest, state="setup-1")).start().stop()
    save("prefix-2")
    assert names(states) == ["prefix-1", "prefix-2", "setup-1"]


def test_what_something_starts_from_does_not_leave(states, engine, save):
    engine.state_bytes = 300 << 20
    for name in ("setup-1", "setup-2", "setup-3"):
        save(name)
    with states.using("setup-1"):
        save("setup-4")
    assert names(states) == ["setup-1", "setup-3", "setup-4"]


def test_what_runs_still_need_is_kept_and_the_next_is_not_saved(states, engine, save):
    engine.state_bytes = 300 << 20
    for name in ("prefix-1", "prefix-2", "saved-1"):
        save(name)
    with pytest.raises(NoRoom, match="900 of 1000 MB"):
        save("prefix-3")
    assert names(states) == ["prefix-1", "prefix-2", "saved-1"]
    assert not states.has_room()


def test_nothing_is_saved_on_a_disk_that_is_nearly_full(states, save, monkeypatch):
    save("setup-1")
    monkeypatch.setattr("desktops.worker.states.LEAST_FREE", 1 << 60)
    with pytest.raises(NoRoom, match="disk is nearly full"):
        save("prefix-1")
    assert names(states) == []  # what could leave has left


def test_a_bound_of_nothing_saves_nothing(engine, tmp_path, save, states):
    assert states.too_small() == ""
    none = States(engine, tmp_path / "none", limit_mb=0)
    assert none.too_small() == "Saved desktops may take 0 MB here, and one needs 256."
    assert not none.has_room()
    with (
        Computer(engine, DeskSpec(computer="c", image=IMAGE.digest)) as computer,
        pytest.raises(NoRoom, match="0 MB"),
    ):
        none.save(computer, "prefix-1", resume=True)


def test_the_usual_bound_is_a_part_of_the_disk(engine, tmp_path):
    limit = States(engine, tmp_path / "states").limit_mb
    assert 0 < limit <= 20 << 10
    assert limit <= shutil.disk_usage(tmp_path).total >> 20


def test_of_two_that_save_the_same_one_does(states, engine, save, monkeypatch):
    inside, go_on = threading.Event(), threading.Event()
    real = engine.save

    def slow_save(desk, name, *, resume):
        inside.set()
        assert go_on.wait(10)
        return real(desk, name, resume=resume)

    monkeypatch.setattr(engine, "save", slow_save)
    first = threading.Thread(target=save, args=("setup-1",))
    first.start()
    assert inside.wait(10)
    with pytest.raises(EngineError, match="just being saved"):
        save("setup-1")
    go_on.set()
    first.join(10)
    assert names(states) == ["setup-1"]
    with pytest.raises(EngineError, match="already"):
        save("setup-1")


def test_a_save_that_fails_leaves_nothing_and_the_desktop_with_its_limits(states, engine, tmp_path):
    engine.refuse_saves = 9
    paid = datetime.now(UTC) + timedelta(minutes=5)
    spec = DeskSpec(computer="c", image=IMAGE.digest, paid_until=paid, silence_seconds=44)
    with Computer(engine, spec) as computer:
        with pytest.raises(EngineError, match="checkpoint"):
            states.save(computer, "setup-1", resume=True, screen=b"a screen")
        desk = engine.desks["c"]
        assert (desk.paid_until, desk.silence_limit) == (paid.timestamp(), 44)
    assert states.held() == []
    assert list((tmp_path / "states").iterdir()) == []


def test_a_copy_is_not_ended_by_what_was_paid_for_its_parent(states, engine, save):
    paid = datetime.now(UTC) + timedelta(seconds=1)
    with Computer(engine, DeskSpec(computer="c", image=IMAGE.digest, paid_until=paid)) as computer:
        states.save(computer, "prefix-1", resume=True)
        assert engine.desks["c"].paid_until == paid.timestamp()
    assert engine.saved["prefix-1"][1].paid_until is None


def test_what_a_killed_worker_left_beside_no_saved_desktop_is_cleared(states, save, tmp_path):
    save("prefix-1", screen=b"a screen")
    (tmp_path / "states" / "prefix-2" / "files").mkdir(parents=True)
    states.sweep()
    assert [place.name for place in (tmp_path / "states").iterdir()] == ["prefix-1"]


def test_those_of_an_image_that_is_gone_leave_unless_a_run_needs_them(states, save):
    for name in ("warm-1", "setup-1", "prefix-1"):
        save(name)
    states.forget_all_but([IMAGE.digest])
    assert names(states) == ["prefix-1", "setup-1", "warm-1"]
    states.forget_all_but([])
    assert names(states) == ["prefix-1"]


@pytest.mark.parametrize("name", ["", "..", "../boxes", "/", "prefix-1/..", "prefix-1\n", "a" * 101])
def test_a_name_that_is_a_path_is_never_forgotten_nor_saved(states, save, monkeypatch, name):
    asked = threading.Event()
    monkeypatch.setattr(states, "forget_now", lambda name: asked.set())
    states.forget(name)
    assert not asked.wait(0.05)
    with pytest.raises(EngineError, match="named"):
        save(name)


def test_an_engine_that_saves_nothing_has_no_states(tmp_path):
    states = States(FakeEngine(), tmp_path / "states")
    states.forget("prefix-1")
    assert states.held() == []
    assert states.limit_mb == 0


def test_a_prefix_is_over_with_its_last_record_and_its_attestation_names_its_screen(tmp_path):
    spool = Spool(tmp_path / "spool", ballast=0)
    now = datetime.now(UTC)
    spool.take("p", 1, "prefix", now)
    recorder = Recorder(spool, BlobStore(tmp_path / "blobs"), assignment="p", epoch=1)
    screen = recorder.keep(b"a screen")
    seen = Attestation(screenshot=screen, processes=["bash"], files="b" * 64)
    saved = StateSaved(
        at=now, computer="c", name="prefix-1", digest=DIGEST, size_bytes=5, seconds=1, attestation=seen
    )
    recorder.record(saved)
    assert [taken.ended for taken in spool.taken()] == [None]
    recorder.record(PrefixEnded(at=now, ok=True))
    assert [taken.ended for taken in spool.taken()] != [None]
    assert screen in spool.after(0, limit=10)[0].blobs
    spool.close()
