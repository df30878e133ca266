"""The data folder: what lies where, its keys, and who may use it."""

from __future__ import annotations

import base64
import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

LOCK_SECONDS = 0.3
PROJECT = Path(__file__).resolve().parents[2]


ROOM_BYTES = 256 << 20  # a new database and its first logs


class AlreadyOwned(Exception):
    """Another process holds this lock of the data folder. `owner` is what it wrote there about itself."""

    def __init__(self, owner: dict[str, Any]) -> None:
        super().__init__("another process holds the lock")
        self.owner = owner


@dataclass(frozen=True)
class Home:
    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        root = Path(os.environ.get("DESKYARD_HOME") or ".deskyard").expanduser()
        return cls((root if root.is_absolute() else PROJECT / root).resolve())

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def database_url(self) -> Path:
        """Read by console.settings when DATABASE_URL is not set."""
        return self.root / "database.url"

    @property
    def demo(self) -> Path:
        """Written by `manage.py demo`: url, email, password, token, workspace."""
        return self.root / "demo.json"

    @property
    def worker_token(self) -> Path:
        return self.root / "worker-token"

    def create(self) -> None:
        """Raises OSError where nothing can be written."""
        for folder in (self.logs, self.root / "static"):
            folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=self.root).close()
        free = shutil.disk_usage(self.root).free
        if free < ROOM_BYTES:
            raise OSError(
                errno.ENOSPC, f"only {free >> 20} MB are free, and it begins with {ROOM_BYTES >> 20} MB"
            )

    def keys(self) -> dict[str, str]:
        """The console's keys as environment variables; made once and kept in secrets.json.

        A home whose secrets.json is lost gets new keys: sessions end, stored secrets cannot be read any
        longer.
        """
        path = self.root / "secrets.json"
        if path.exists():
            return dict(json.loads(path.read_text()))
        self.root.mkdir(parents=True, exist_ok=True)
        keys = {
            "DJANGO_SECRET_KEY": secrets.token_urlsafe(48),
            "DESKYARD_SECRET_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "DESKYARD_SIGNING_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
        }
        made = path.with_name(f".{path.name}.made-{os.getpid()}")
        write_private(made, json.dumps(keys, indent=2) + "\n")
        with contextlib.suppress(FileExistsError):  # of two that begin at once, one's keys are both's
            os.link(made, path)
        made.unlink()
        return dict(json.loads(path.read_text()))


def write_private(path: Path, text: str) -> None:
    """Write for the owner's eyes only, whole or not at all."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


@contextlib.contextmanager
def owned(path: Path, about: dict[str, Any]) -> Iterator[None]:
    """Hold the lock file at `path`; the kernel lets go of it however this process ends.

    Raises AlreadyOwned with what the present owner wrote about itself.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+") as file:
        deadline = time.monotonic() + LOCK_SECONDS
        while not _lock(file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise AlreadyOwned(owner_of(path))
            time.sleep(0.02)  # it may only be somebody who looks (`is_owned`)
        file.truncate()
        file.write(json.dumps(about))
        file.flush()
        yield


def is_owned(path: Path) -> bool:
    """Does a living process hold this lock file?"""
    if not path.exists():
        return False
    with path.open() as file:
        return not _lock(file, fcntl.LOCK_SH)


def _lock(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def owner_of(path: Path) -> dict[str, Any]:
    """What the owner wrote; empty while it is still writing."""
    try:
        return dict(json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return {}
