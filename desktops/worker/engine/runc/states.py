"""Live desktops, saved: each a folder with the image of its processes, what it wrote, and what it was made from."""

from __future__ import annotations

import ctypes
import hashlib
import json
import logging
import os
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from desktops.worker.engine.base import EngineError, SavedState, StateMissing

from .going import Going

log = logging.getLogger(__name__)

MAKING = ".new"
AT_FDCWD, RENAME_EXCHANGE = -100, 2


class States:
    """Under `folder`, by name, from any thread. One that is being written has another name until it is whole, and one
    that is being read is neither replaced nor removed.

    NAME/images/    CRIU's images
    NAME/upper/     what the desktop wrote over its image
    NAME/state      what it is, as JSON; the file's time is when one was last started from it
    """

    def __init__(self, folder: Path, going: Going) -> None:
        self._folder, self._going = folder, going
        self._readers: Counter[str] = Counter()
        self._leaving: Counter[str] = Counter()  # somebody waits for the last reader
        self._changed = threading.Condition()
        self._making: set[Path] = set()
        folder.mkdir(parents=True, exist_ok=True)

    def clear(self) -> None:
        """What a worker that was killed had not finished. Nobody else writes here."""
        with self._changed:
            for making in set(self._folder.glob(f"*{MAKING}")) - self._making:
                self._going.take(making)

    def place(self, name: str) -> Path:
        return self._folder / name

    def find(self, name: str) -> SavedState | None:
        place = self.place(name)
        try:
            told = json.loads((place / "state").read_text())
            made_at = datetime.fromisoformat(told.pop("made_at"))
            return SavedState(**told, made_at=made_at, used_at=_used_at(place / "state"))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, LookupError) as error:
            log.warning("the saved desktop %s cannot be read and goes: %s", name, error)
            self.forget(name)
            return None

    def all(self) -> list[SavedState]:
        names = sorted(place.name for place in self._folder.iterdir() if place.suffix != MAKING)
        return [state for name in names if (state := self.find(name)) is not None]

    @contextmanager
    def reading(self, name: str, image_id: str) -> Iterator[Path]:
        """Its folder, which stays as it is meanwhile. Raises StateMissing, also when it was made from another image."""
        with self._changed:
            state = None if self._leaving[name] else self.find(name)
            if state is None or state.image_id != image_id:
                raise StateMissing(f"the saved desktop {name} is not on this machine")
            self._readers[name] += 1
        try:
            os.utime(self.place(name) / "state")  # takes no room on a full disk
            yield self.place(name)
        finally:
            with self._changed:
                self._readers[name] -= 1
                self._changed.notify_all()

    def store(self, name: str, *, image_id: str, image: str, write: Callable[[Path], None]) -> SavedState:
        """`write` fills a folder with `images` and `upper`. Raises EngineError; then what was there before stays."""
        making = self._begin(name)
        try:
            write(making)
            state = SavedState(name, *_weigh(making), image_id, image, made_at=datetime.now(UTC))
            _write_whole(making / "state", json.dumps(_told(state)))
            with self._unread(name):
                self._put(making, self.place(name))
        except BaseException as error:
            self._going.take(making)
            if isinstance(error, OSError):
                raise EngineError(f"the saved desktop could not be written: {error}") from error
            raise
        finally:
            self._making.discard(making)
        return state

    def _begin(self, name: str) -> Path:
        with self._changed:
            try:
                made = tempfile.mkdtemp(prefix=f"{name}.", suffix=MAKING, dir=self._folder)
            except OSError as error:
                raise EngineError(f"the saved desktop could not be written: {error}") from error
            self._making.add(Path(made))
        return Path(made)

    def forget(self, name: str) -> None:
        """Once nobody reads it any longer; from now on nobody begins to."""
        with self._unread(name):
            self._going.take(self.place(name))

    def _put(self, making: Path, place: Path) -> None:
        if place.exists():
            _exchange(making, place)
            self._going.take(making)
        else:
            making.rename(place)

    @contextmanager
    def _unread(self, name: str) -> Iterator[None]:
        with self._changed:
            self._leaving[name] += 1
            try:
                self._changed.wait_for(lambda: not self._readers[name])
                yield
            finally:
                self._leaving[name] -= 1


def copy(source: Path, target: Path) -> None:
    """With owners, links and the overlay's own marks, which shutil leaves behind. Raises EngineError."""
    command = ["cp", "-a", "--reflink=auto", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"what a desktop wrote could not be copied: {done.stderr.strip()[-300:]}")


def _exchange(one: Path, other: Path) -> None:
    """Both are there at any time, whoever is killed meanwhile."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def _write_whole(path: Path, text: str) -> None:
    """It is whole, or not there, even when the machine loses its power. Its time is none yet."""
    making = path.with_suffix(MAKING)
    with making.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.utime(making, (0, 0))
    making.rename(path)


def _told(state: SavedState) -> dict[str, Any]:
    told = asdict(state)
    del told["used_at"]
    return told | {"made_at": state.made_at.isoformat()}


def _used_at(path: Path) -> datetime | None:
    seconds = path.stat().st_mtime
    return datetime.fromtimestamp(seconds, UTC) if seconds else None


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
