"""Saved desktops are told to the console, and forgotten when it says so."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest

from desktops.protocol.attempt import Attestation, PrefixEnded, StateSaved
from desktops.worker.blobs import BlobStore
from desktops.worker.engine.base import EngineError, SavedState, SavingEngine
from desktops.worker.recorder import Recorder
from desktops.worker.spool import Spool
from desktops.worker.states import States

DIGEST, RECIPE = "sha256:" + "a" * 64, "sha256:" + "b" * 64
MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)


class Shelf:
    """The part of a saving engine that keeps states; whatever else is asked of it is an error."""

    def __init__(self) -> None:
        self.kept = {"prefix-1": SavedState("prefix-1", DIGEST, 5, DIGEST, RECIPE, made_at=MADE_AT)}
        self.forgotten = threading.Event()
        self.broken = False

    def states(self):
        if self.broken:
            raise EngineError("the disk is away")
        return list(self.kept.values())

    def forget(self, name):
        self.kept.pop(name, None)
        self.forgotten.set()

    def _not_asked(self, *_args, **_named):
        raise AssertionError("only states are asked for")

    close = create = find = images = list_owned = owner = probe = remove = save = sweep = _not_asked


@pytest.fixture
def shelf() -> Shelf:
    made = Shelf()
    assert isinstance(made, SavingEngine)
    return made


def test_all_saved_desktops_are_told(shelf):
    (held,) = States(shelf).held() or []
    assert (held.name, held.digest, held.size_bytes) == ("prefix-1", DIGEST, 5)
    assert (held.image, held.made_at, held.used_at) == (RECIPE, MADE_AT, None)


def test_states_that_cannot_be_listed_are_not_said_to_be_none(shelf):
    shelf.broken = True
    assert States(shelf).held() is None


def test_a_forgotten_state_goes(shelf):
    States(shelf).forget("prefix-1")
    assert shelf.forgotten.wait(10)
    assert States(shelf).held() == []


@pytest.mark.parametrize("name", ["", "..", "../boxes", "/", "prefix-1/..", "prefix-1\n", "a" * 101])
def test_a_name_that_is_a_path_is_never_forgotten(shelf, name):
    States(shelf).forget(name)
    assert not shelf.forgotten.wait(0.05)


def test_an_engine_that_saves_nothing_has_no_states():
    states = States(object())  # type: ignore[arg-type]
    states.forget("prefix-1")
    assert states.held() == []


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
