"""A disk for each desktop: a file system of its own in a sparse file. One that fills its disk is told that it is full,
as on any machine, and nothing else is; and however many files it has written, they go with one.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import tempfile
import threading
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
TRIAL = "trial-"
LEAST_MB = 1024  # with less no office program starts
OPTIONS = "loop,noatime,nodev,noinit_itable"


class Disks:
    """Disks of `limit_mb`, or less where `count` of them would fill the machine's own; 0 means that there is no limit.
    So it is, and it is said why, where none can be made.
    """

    def __init__(self, folder: Path, limit_mb: int, count: int = 1) -> None:
        self._folder, self._limit_mb, self._count = folder, limit_mb, count
        self._blank = folder / "blank.img"
        self._lock = threading.Lock()
        self._problem: str | None = None if limit_mb else ""  # None: not yet tried

    @property
    def told(self) -> str:
        """A sentence for the Workers page."""
        problem = self._why_not()
        if self._limit_mb and not problem:
            return f"Each may write {self._limit_mb / 1024:.3g} GiB."
        return f"How much each writes is not limited{f': {problem}' if problem else ''}."

    def attach(self, box: Path) -> Path:
        """An empty folder in that box, on a disk of its own. Raises EngineError."""
        disk = box / "disk"
        disk.mkdir()
        if self._limit_mb and not self._why_not():
            self._mount(box, disk)
        return disk

    def clear(self) -> None:
        """What a worker left that was killed while it tried one."""
        with self._lock:
            for trial in self._folder.glob(f"{TRIAL}*"):
                _undo(trial)

    def _why_not(self) -> str:
        with self._lock:
            if self._problem is None:
                try:
                    self._prepare()
                except (EngineError, OSError) as error:
                    log.warning("how much a desktop writes is not limited: %s", error)
                    self._problem = str(error)
                else:
                    self._problem = ""
            return self._problem

    def _prepare(self) -> None:
        """Make the disk that the others are copies of, and see that one can be used."""
        share_mb = (shutil.disk_usage(self._folder).free >> 20) // (self._count + 1)
        self._limit_mb = min(self._limit_mb, max(share_mb, LEAST_MB))
        trial = Path(tempfile.mkdtemp(prefix=TRIAL, dir=self._folder))
        try:
            making = trial / self._blank.name
            with making.open("wb") as file:
                file.truncate(self._limit_mb << 20)
            _run(*FORMAT, str(making))
            making.rename(self._blank)
            (trial / "disk").mkdir()
            self._mount(trial, trial / "disk")
        finally:
            _undo(trial)

    def _mount(self, box: Path, disk: Path) -> None:
        file = box / "disk.img"
        _run("cp", "--reflink=auto", "--sparse=always", str(self._blank), str(file))
        _run("mount", "-t", "ext4", "-o", OPTIONS, str(file), str(disk))


def _undo(trial: Path) -> None:
    leftovers.unmount_below(trial)
    leftovers.remove(trial)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EngineError(f"{command[0]} cannot be started: {error}") from error
    if done.returncode:
        raise EngineError(f"{command[0]} failed: {done.stderr.strip()[-300:]}")
