"""Ends desktops that nobody answers for any longer, from outside: their worker is gone, or what is paid for is used up.

The watchdog in a desktop does that too, but it is the desktop's own, and what runs there can end it. This is a process
beside the worker: it goes with the worker's last word, and when the worker goes without one, it stays as long as any
of that worker's desktops is paid for.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from desktops.worker.engine.base import EngineError

from . import leftovers

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
END_SECONDS = 5.0
PROJECT = Path(__file__).resolve().parents[4]
LAST_WORD = b"."
ENDED = "ended"  # its time is when the guardian had ended the desktop


class Guardian:
    """The worker's end of it. `boxes` has a folder for each desktop, `runc` is the root of runc's notes."""

    def __init__(self, boxes: Path, runc: Path) -> None:
        self._boxes, self._runc = boxes, runc
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def wake(self) -> None:
        """See that it is there, before a desktop is."""
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                log.warning(
                    "the desktops' guardian had ended with %d; another starts", self._process.returncode
                )
                self._let_go(self._process)
                self._process = None
            if self._process is None:
                # What it waits for is the end of this pipe: nobody else gets a copy of our end.
                self._process = subprocess.Popen(
                    [sys.executable, "-m", __name__, str(self._boxes), str(self._runc)],
                    env=os.environ | {"PYTHONPATH": str(PROJECT)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                )

    def close(self) -> None:
        """Send it away; desktops stay."""
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            self._let_go(process)

    def _let_go(self, process: subprocess.Popen[bytes]) -> None:
        try:
            process.communicate(LAST_WORD, END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def set_paid_until(box: Path, at: datetime) -> None:
    """Kept as the time of a file, which takes no room on a full disk. A desktop that is gone needs none."""
    path, making = box / "paid_until", box / "paid_until.new"
    times = (at.timestamp(), at.timestamp())
    try:
        os.utime(path, times)
    except FileNotFoundError:
        try:
            making.touch()
            os.utime(making, times)
            making.rename(path)
        except FileNotFoundError:
            return


def ended_at(box: Path) -> datetime | None:
    """When the guardian ended it, if it did."""
    try:
        return datetime.fromtimestamp((box / ENDED).stat().st_mtime, UTC)
    except FileNotFoundError:
        return None


def watch(boxes: Path, runc: Path) -> None:
    """Until standard input has a word, or ends without one."""
    while True:
        if select.select([0], [], [], LOOK_SECONDS)[0]:
            if not os.read(0, 1):
                _outlive(boxes, runc, _names(boxes))
            return
        over = [name for name in _names(boxes) if _is_over(boxes / name) and leftovers.groups(name)]
        _end(boxes, runc, over)


def _outlive(boxes: Path, runc: Path, orphans: list[str]) -> None:
    """Their worker is gone: each ends when its paid time does, which is what it costs, or now if it has none."""
    while orphans := [name for name in orphans if leftovers.groups(name)]:
        unpaid = [name for name in orphans if not (boxes / name / "paid_until").exists()]
        _end(boxes, runc, [*unpaid, *(name for name in orphans if _is_over(boxes / name))])
        time.sleep(LOOK_SECONDS)  # between two looks


def _names(boxes: Path) -> list[str]:
    return [box.name for box in boxes.iterdir()]


def _is_over(box: Path) -> bool:
    try:
        return time.time() >= (box / "paid_until").stat().st_mtime
    except FileNotFoundError:
        return False


def _end(boxes: Path, runc: Path, names: list[str]) -> None:
    """Their processes; what is left of them a worker clears."""
    for name in names:
        try:
            leftovers.end(runc, name)
            (boxes / name / ENDED).touch()
        except FileNotFoundError:
            continue  # its worker was faster, and has cleared it
        except EngineError as error:
            print(f"guardian: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # who stops the worker in this way lets it end its work first
    watch(Path(sys.argv[1]), Path(sys.argv[2]))
