"""What is to be deleted, moved out of the way at once: deleting many files takes long, and nobody waits for that."""

from __future__ import annotations

import logging
import threading
import uuid
from pathlib import Path

from desktops.worker.engine.base import EngineError

from . import leftovers

log = logging.getLogger(__name__)

CLOSE_SECONDS = 10.0


class Going:
    """A folder whose contents a thread deletes, those of an earlier process too. On the file system of what goes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def take(self, path: Path) -> None:
        """It is gone from its place when this returns. No error when nothing is there; nothing may be mounted below."""
        try:
            path.rename(self._folder / uuid.uuid4().hex)
        except FileNotFoundError:
            return
        except OSError as error:
            raise EngineError(f"{path.name[:20]} cannot be removed: {error}") from error
        self.clear()

    def clear(self) -> None:
        """Delete what is there, in a thread."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._delete, name="going", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Let it end, within reason; the next start does the rest."""
        with self._lock:  # else it may be one that has not begun
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_SECONDS)

    def _delete(self) -> None:
        tried: set[str] = set()
        while True:
            with self._lock:
                paths = [path for path in self._folder.iterdir() if path.name not in tried]
                if not paths:
                    self._thread = None
                    return
            for path in paths:
                tried.add(path.name)
                try:
                    leftovers.remove(path)
                except EngineError as error:
                    log.warning("what was removed stays on the disk until the next sweep: %s", error)
