"""Saved desktops on disk: whole or not there, whatever happens while one is written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from desktops.worker.engine.base import EngineError, SavedState, StateMissing
from desktops.worker.engine.runc.going import Going
from desktops.worker.engine.runc.states import States

IMAGE_ID, IMAGE = "sha256:1", "sha256:2"
Store = Callable[..., SavedState]


def write(text: str) -> Callable[[Path], None]:
    """Saves these processes, of a desktop that had written one file."""

    def save(folder: Path) -> None:
        for name in ("images", "upper"):
            (folder / name).mkdir()
        (folder / "images/pages.img").write_text(text)
        (folder / "upper/notes.txt").write_text("mine")

    return save


def refuse(folder: Path) -> None:
    write("half of")(folder)
    raise OSError(28, "No space left on device")


@pytest.fixture
def going(tmp_path: Path) -> Going:
    return Going(tmp_path / "going")


@pytest.fixture
def states(tmp_path: Path, going: Going) -> States:
    return States(tmp_path / "states", going)


@pytest.fixture
def store(states: States) -> Store:
    def stored(name: str, save: Callable[[Path], None]) -> SavedState:
        return states.store(name, image_id=IMAGE_ID, image=IMAGE, write=save)

    return stored


def saved_text(states: States, name: str) -> str:
    with states.reading(name, IMAGE_ID) as place:
        return (place / "images/pages.img").read_text()


def test_what_was_stored_is_found_again_with_its_image_and_times(states: States, store: Store) -> None:
    before = datetime.now(UTC)
    made = store("first", write("processes"))
    assert states.all() == [made]
    assert (made.image_id, made.image, made.used_at) == (IMAGE_ID, IMAGE, None)
    assert before <= made.made_at <= datetime.now(UTC)
    assert saved_text(states, "first") == "processes"
    [used] = states.all()
    assert used.used_at
    assert used.digest == made.digest


def test_a_saving_that_fails_leaves_what_was_saved_before_and_nothing_else(
    states: States, store: Store, going: Going, tmp_path: Path
) -> None:
    made = store("first", write("old"))
    with pytest.raises(EngineError, match="No space left"):
        store("first", refuse)
    assert states.all() == [made]
    assert saved_text(states, "first") == "old"
    going.close()
    assert [path.name for path in (tmp_path / "states").iterdir()] == ["first"]
    assert list((tmp_path / "going").iterdir()) == []


def test_what_is_saved_anew_takes_the_place_of_the_old(states: States, store: Store) -> None:
    old, new = store("first", write("old")), store("first", write("new"))
    assert old.digest != new.digest
    assert states.all() == [new]
    assert saved_text(states, "first") == "new"


def test_what_is_being_written_is_not_listed_and_goes_only_if_its_worker_was_killed(
    states: States, store: Store, going: Going, tmp_path: Path
) -> None:
    seen = []

    def look(folder: Path) -> None:
        write("processes")(folder)
        (folder / "state").write_text("{}")
        states.clear()
        seen.append((folder, states.all()))

    made = store("first", look)
    [(folder, listed)] = seen
    assert listed == []
    assert states.all() == [made]
    folder.mkdir()  # as a worker leaves it that is killed just then
    again = States(tmp_path / "states", going)
    assert again.all() == [made]
    again.clear()
    assert not folder.exists()


def test_what_cannot_be_read_goes_and_hides_nothing_else(
    states: States, store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = store("whole", write("processes"))
    for name, text in (("cut-off", '{"name": "cut-'), ("strange", "[]"), ("older", '{"name": "older"}')):
        store(name, write("processes"))
        (tmp_path / "states" / name / "state").write_text(text)
    assert states.all() == [whole]
    assert caplog.text.count("cannot be read and goes") == 3
    assert [path.name for path in (tmp_path / "states").iterdir()] == ["whole"]


def test_a_state_of_another_image_is_not_read(states: States, store: Store) -> None:
    store("first", write("processes"))
    with pytest.raises(StateMissing, match="first"), states.reading("first", "sha256:3"):
        raise AssertionError("it is there")


@pytest.mark.parametrize("change", ["forgotten", "saved anew"])
def test_what_is_being_read_stays_as_it_is_until_its_last_reader_is_done(
    states: States, store: Store, change: str
) -> None:
    store("first", write("old"))
    begun, done = threading.Event(), threading.Event()

    def replace() -> None:
        begun.set()
        if change == "forgotten":
            states.forget("first")
        else:
            store("first", write("new"))
        done.set()

    with ThreadPoolExecutor(1) as pool:
        with states.reading("first", IMAGE_ID) as one:
            with states.reading("first", IMAGE_ID) as other:
                pool.submit(replace)
                assert begun.wait(10)
                while not states._leaving["first"]:
                    assert not done.wait(0.01)
                with pytest.raises(StateMissing), states.reading("first", IMAGE_ID):
                    raise AssertionError("it is about to go")
                assert (other / "images/pages.img").read_text() == "old"
            assert not done.is_set()
            assert (one / "images/pages.img").read_text() == "old"
        assert done.wait(10)
    found = states.find("first")
    assert (found is None) == (change == "forgotten")


def test_many_may_save_read_and_forget_the_same_name(states: States, store: Store, going: Going) -> None:
    """Whoever reads it finds one of those that were stored, and all of that."""
    texts = [str(number) * 20_000 for number in range(4)]
    read = []

    def work(number: int) -> None:
        for _ in range(5):
            store("first", write(texts[number]))
            try:
                read.append(saved_text(states, "first"))
            except StateMissing:
                continue  # somebody replaces or forgets it just now
            finally:
                if number == 0:
                    states.forget("first")

    with ThreadPoolExecutor(len(texts)) as pool:
        list(pool.map(work, range(len(texts))))
    assert read
    assert set(read) <= set(texts)
    states.forget("first")
    going.close()
    assert states.all() == []


def test_what_goes_is_out_of_the_way_at_once_and_deleted_soon_though_its_process_is_killed(
    going: Going, tmp_path: Path
) -> None:
    box = tmp_path / "box"
    (box / "deep").mkdir(parents=True)
    going.take(box)
    going.take(box)  # twice is no error
    assert not box.exists()
    going.close()
    left = tmp_path / "going/left"
    left.mkdir()  # by a process that was killed before it was done
    again = Going(tmp_path / "going")
    again.clear()
    again.close()
    assert list((tmp_path / "going").iterdir()) == []
