"""What a getter works with: the desktop, and a folder on the worker for the files it fetches."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from desktops.worker.guest_client import Completed, Guest, GuestCommandTimeout, GuestFileMissing, GuestRefused

from .errors import ArtefactMissing, CheckerBroken

COMMAND_SECONDS = 60.0
MAX_FILE = 64 << 20  # bytes; nothing a task makes is larger, and a worker must not be filled by one


@dataclass
class Bench:
    guest: Guest
    folder: Path
    fetched: dict[str, Path] = field(default_factory=dict)

    def fetch(self, path: str, dest: str = "") -> Path:
        """Copy a file of the desktop into the folder. Raises ArtefactMissing."""
        absolute = in_home(path)
        try:
            data = self.guest.read_file(absolute)
        except GuestFileMissing as error:
            raise ArtefactMissing(f"there is no file {absolute}") from error
        except GuestRefused as error:
            raise ArtefactMissing(f"{absolute} cannot be read as a file: {error}") from error
        return self.keep(dest or PurePosixPath(absolute).name, data)

    def keep(self, dest: str, data: bytes) -> Path:
        """Put bytes into the folder under a plain file name; the file becomes part of the evidence."""
        if len(data) > MAX_FILE:
            raise ArtefactMissing(f"{dest} is larger than {MAX_FILE >> 20} MiB")
        name = PurePosixPath(dest).name
        target = self.folder / name
        target.write_bytes(data)
        self.fetched[name] = target
        return target

    def run(self, command: str | list[str], seconds: float = COMMAND_SECONDS) -> Completed:
        """Run a command of the checker's in the desktop. Raises CheckerBroken when it cannot be run."""
        try:
            return self.guest.run(command, timeout=seconds)
        except GuestCommandTimeout as error:
            raise CheckerBroken(f"the checker's command did not end: {error}") from error
        except (GuestRefused, GuestFileMissing) as error:
            raise CheckerBroken(f"the checker's command cannot be run: {error}") from error


def in_home(path: str) -> str:
    """The absolute path of a file that a task names, ~ and relative ones from the user's home."""
    if path == "~" or path.startswith("~/"):
        return "/home/user" + path[1:]
    return path if path.startswith("/") else f"/home/user/{path}"
