"""Live desktops, saved: each a folder with the image of its processes, what it wrote, and what it was made from."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from desktops.worker.engine.base import EngineError, SavedState

from . import leftovers

MAKING = ".new"


class States:
    """Under `folder`, by name. One that is being written has another name until it is whole.

    NAME/images/    CRIU's images
    NAME/upper/     what the desktop wrote over its image
    NAME/state      what it is, as JSON
    NAME/used       its time is when one was last started from it
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def place(self, name: str) -> Path:
        return self._folder / name

    def find(self, name: str) -> SavedState | None:
        place = self.place(name)
        try:
            told = json.loads((place / "state").read_text())
        except FileNotFoundError:
            return None
        made_at = datetime.fromisoformat(told.pop("made_at"))
        return SavedState(**told, made_at=made_at, used_at=_changed(place / "used"))

    def all(self) -> list[SavedState]:
        found = (self.find(place.name) for place in sorted(self._folder.iterdir()))
        return [state for state in found if state is not None]

    def use(self, name: str) -> None:
        """A desktop is being started from it."""
        (self.place(name) / "used").touch()

    def store(
        self, name: str, *, image_id: str, image: str, upper: Path, save: Callable[[Path], None]
    ) -> SavedState:
        """`save` writes the processes, which ends them, to a folder; then nothing changes `upper` any more.

        Raises EngineError and keeps nothing.
        """
        making = self.place(f"{name}{MAKING}")
        leftovers.remove(making)
        try:
            making.mkdir(mode=0o700)
            save(making / "images")
            copy(upper, making / "upper")
            state = SavedState(name, *_weigh(making), image_id, image, made_at=datetime.now(UTC))
            (making / "state").write_text(json.dumps(_told(state)))
            self.forget(name)
            making.rename(self.place(name))
        except BaseException as error:
            leftovers.remove(making)
            if isinstance(error, OSError):
                raise EngineError(f"the saved desktop could not be written: {error}") from error
            raise
        return state

    def forget(self, name: str) -> None:
        leftovers.remove(self.place(name))


def copy(source: Path, target: Path) -> None:
    """With owners, links and the overlay's own marks, which shutil leaves behind. Raises EngineError."""
    command = ["cp", "-a", "--reflink=auto", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"what a desktop wrote could not be copied: {done.stderr.strip()[-300:]}")


def _told(state: SavedState) -> dict[str, Any]:
    told = asdict(state)
    del told["used_at"]
    return told | {"made_at": state.made_at.isoformat()}


def _changed(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    except FileNotFoundError:
        return None


def _weigh(folder: Path) -> tuple[str, int]:
    """SHA-256 over the names and contents of all files, and their bytes."""
    whole, size = hashlib.sha256(), 0
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(root, name)
            whole.update(f"{path.relative_to(folder)}\0".encode())
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    whole.update(hashlib.file_digest(file, "sha256").digest())
                size += path.stat().st_size
    return f"sha256:{whole.hexdigest()}", size
