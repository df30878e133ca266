"""Saved desktops on disk: whole or not there, whatever happens while one is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from desktops.worker.engine.base import SavedState
from desktops.worker.engine.runc.states import States

Store = Callable[..., SavedState]


def write(text: str) -> Callable[[Path], None]:
    """Saves these processes."""

    def save(images: Path) -> None:
        images.mkdir()
        (images / "pages.img").write_text(text)

    return save


@pytest.fixture
def states(tmp_path: Path) -> States:
    return States(tmp_path / "states")


@pytest.fixture
def store(states: States, tmp_path: Path) -> Store:
    """Store a desktop under that name that had written one file."""
    upper = tmp_path / "upper"
    upper.mkdir()
    (upper / "notes.txt").write_text("mine")

    def stored(name: str, save: Callable[[Path], None] | None = None) -> SavedState:
        save = save or write("processes")
        return states.store(name, image_id="sha256:1", image="sha256:2", upper=upper, save=save)

    return stored


def test_what_was_stored_is_found_again_with_its_image_and_times(states: States, store: Store) -> None:
    before = datetime.now(UTC)
    made = store("first")
    assert states.all() == [made]
    assert (made.image_id, made.image, made.used_at) == ("sha256:1", "sha256:2", None)
    assert before <= made.made_at <= datetime.now(UTC)
    states.use("first")
    [used] = states.all()
    assert used.used_at
    assert used.digest == made.digest
