"""A folder that the database's own user may pass through."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def passable() -> Iterator[Path]:
    """Not below pytest's own folder: each pytest that starts takes away what lets others pass through that."""
    folder = Path(tempfile.mkdtemp(prefix="deskyard-test-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
