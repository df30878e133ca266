"""A disk for each desktop: a file system of its own in a sparse file. One that fills its disk is told that it is full,
as on any machine, and nothing else is; and however many files it has written, they go with one.
"""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path

from desktops.worker.engine.base import EngineError

from . import leftovers

log = logging.getLogger(__name__)

# No journal, since nobody needs the disk after its desktop; what mkfs can leave out is left out, for a start that is
# quick and a file that is small.
FORMAT = [
    "mkfs.ext4",
    "-q",
    "-F",
    "-m",
    "0",
    "-O",
    "^has_journal,^resize_inode",
    "-E",
    "lazy_itable_init=1,nodiscard",
]
OPTIONS = "loop,noatime,nodev,noinit_itable"


class Disks:
    """Disks of `limit_mb`; 0 means that there is no limit. So it is, and `problem` says why, where none can be made."""

    def __init__(self, folder: Path, limit_mb: int) -> None:
        self._blank = folder / "blank.img"
        self.limit_mb, self.problem = limit_mb, ""
        if limit_mb:
            try:
                self._prepare()
            except EngineError as error:
                self.limit_mb, self.problem = 0, str(error)
                log.warning("what a desktop writes is not limited: %s", error)

    @property
    def told(self) -> str:
        """A sentence for the Workers page."""
        if self.limit_mb:
            return f"Each may write {self.limit_mb / 1024:g} GiB."
        return f"How much each writes is not limited{f': {self.problem}' if self.problem else ''}."

    def attach(self, box: Path) -> Path:
        """An empty folder in that box, on a disk of its own. Raises EngineError."""
        disk = box / "disk"
        disk.mkdir()
        if self.limit_mb:
            file = box / "disk.img"
            _run("cp", "--reflink=auto", "--sparse=always", str(self._blank), str(file))
            _run("mount", "-t", "ext4", "-o", OPTIONS, str(file), str(disk))
        return disk

    def _prepare(self) -> None:
        """Make the disk that the others are copies of, and see that one can be used."""
        with self._blank.open("wb") as file:
            file.truncate(self.limit_mb << 20)
        _run(*FORMAT, str(self._blank))
        tried = self._blank.with_name("tried")
        leftovers.unmount_below(tried)
        leftovers.remove(tried)
        tried.mkdir()
        try:
            self.attach(tried)
        finally:
            leftovers.unmount_below(tried)
            leftovers.remove(tried)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EngineError(f"{command[0]} cannot be started: {error}") from error
    if done.returncode:
        raise EngineError(f"{command[0]} failed: {done.stderr.strip()[-300:]}")
