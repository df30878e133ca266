"""Somebody who only watches desktops on runc: their folders under the workers' homes, and their first processes."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from desktops.worker.engine.runc.runtime import Runc

from .observer import Seen

LOOK_SECONDS = 0.05


class BoxObserver:
    """Watches every worker's home under `folder`, from the moment it is made until `close`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._seen: dict[str, Seen] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="box-observer", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            present = set()
            for home in self._folder.glob("*/desktops/boxes"):
                owner = (home.parent.parent / "owner").read_text().strip()
                runc = Runc(home.parent / "runc", Path("criu"))
                for box in home.iterdir():
                    present.add(box.name)
                    self._look(box.name, owner, bool(runc.pid(box.name)))
            with self._lock:
                for computer, seen in self._seen.items():
                    if computer not in present and seen.removed is None:
                        seen.removed = time.time()
                        seen.died = seen.died or seen.removed

    def _look(self, computer: str, owner: str, lives: bool) -> None:
        with self._lock:
            seen = self._seen.setdefault(computer, Seen(owner, time.time()))
            if lives and seen.started is None:
                seen.started = time.time()
            if not lives and seen.started is not None and seen.died is None:
                seen.died = time.time()

    def of(self, owners: set[str]) -> dict[str, Seen]:
        """Every desktop of these workers, by computer."""
        with self._lock:
            return {computer: seen for computer, seen in self._seen.items() if seen.owner in owners}

    def left(self, owners: set[str]) -> list[str]:
        """Desktops of these workers that exist now, in whatever state."""
        with self._lock:
            return [name for name, seen in self._seen.items() if seen.owner in owners and not seen.removed]

    def close(self) -> None:
        self._closing.set()
        self._thread.join(5)
