import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def osworld_folder() -> Path:
    """OSWorld's task files: DESKYARD_OSWORLD, else shared/osworld beside the project."""
    named = os.environ.get("DESKYARD_OSWORLD")
    if named:
        return Path(named)
    for parent in Path(__file__).resolve().parents:
        candidate = parent / "shared" / "osworld"
        if candidate.is_dir():
            return candidate
    pytest.skip("OSWorld's task files are not here: set DESKYARD_OSWORLD to a checkout of it")
