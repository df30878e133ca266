"""The desktops that this worker has saved: within a bound, told to the console, and forgotten when it says so.

What is named `warm-…` or `setup-…` the worker makes by itself, and anew when it is missed: of these the least recently
used leaves when there is no room. All others leave only when the console says so; what finds no room is not saved.

    FOLDER/NAME/screen.png    what the saved desktop showed, where its copies are compared with it
    FOLDER/NAME/files/        what its setup left on this machine, for the checker
"""

from __future__ import annotations

import contextlib
import logging
import re
import shutil
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

from desktops.protocol.messages import HeldState

from .computer import MADE_ANEW, Computer
from .engine.base import Engine, EngineError, SavedState, SavingEngine
from .setups import Setups

log = logging.getLogger(__name__)

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")  # it becomes a folder's name: never a path
LEAST_EXPECTED = 256 << 20  # bytes of one that is about to be saved
LEAST_FREE = 2 << 30  # bytes of disk that saving leaves for everything else
MOST_BYTES, PART_OF_DISK = 20 << 30, 5


class NoRoom(EngineError):
    """A desktop is not saved: within the bound, or on the disk, there is no room for it."""


class States:
    """Use from any thread. Without an engine that saves there are none.

    `limit_mb` is how much of the disk all of them together may take: None for a fifth of it, 20 GiB at most; 0 for
    none.
    """

    def __init__(self, engine: Engine, folder: Path, limit_mb: int | None = None) -> None:
        self._engine = engine if isinstance(engine, SavingEngine) else None
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        usual = min(MOST_BYTES, shutil.disk_usage(folder).total // PART_OF_DISK)
        self._limit = usual if limit_mb is None else limit_mb << 20
        self._lock = threading.Lock()
        self._saving: set[str] = set()
        self._used: Counter[str] = Counter()
        self.setups = Setups()

    @property
    def limit_mb(self) -> int:
        return self._limit >> 20 if self._engine is not None else 0

    def held(self) -> list[HeldState] | None:
        """All of them; None where they cannot be looked at just now."""
        try:
            states = self._all()
        except (EngineError, OSError, ValueError) as error:  # one may be going away while it is read
            log.info("the saved desktops cannot be listed just now: %s", error)
            return None
        return [
            HeldState(
                name=state.name,
                digest=state.digest,
                size_bytes=state.size_bytes,
                image=state.image,
                made_at=state.made_at,
                used_at=state.used_at,
            )
            for state in states
        ]

    def has(self, name: str) -> bool:
        """Raises EngineError."""
        return any(state.name == name for state in self._all())

    @contextlib.contextmanager
    def using(self, name: str) -> Iterator[None]:
        """It does not leave for want of room meanwhile."""
        with self._lock:
            self._used[name] += 1
        try:
            yield
        finally:
            with self._lock:
                self._used[name] -= 1

    # ── what is kept beside a desktop ─────────────────────────────────────────────────────────────────────

    def screen(self, name: str) -> bytes | None:
        """What it showed when it was saved; None where that was not kept."""
        try:
            return (self._folder / name / "screen.png").read_bytes()
        except FileNotFoundError:
            return None

    def lay_out(self, name: str, folder: Path) -> None:
        """Put what its setup had left on this machine where that was."""
        with contextlib.suppress(FileNotFoundError):
            shutil.copytree(self._folder / name / "files", folder, dirs_exist_ok=True)

    # ── saving and leaving ────────────────────────────────────────────────────────────────────────────────

    def save(
        self,
        computer: Computer,
        name: str,
        *,
        resume: bool,
        files: Path | None = None,
        screen: bytes | None = None,
    ) -> SavedState:
        """Keep the desktop under that name, with `files` and its `screen`; then it goes on, or has ended.

        Raises GuestError or EngineError with nothing kept: NoRoom too, and for a name that is there or being saved.
        """
        if NAME.fullmatch(name) is None:
            raise EngineError(f"a saved desktop cannot be named {name[:120]!r}")
        with self._lock:
            if name in self._saving:
                raise EngineError(f"the desktop {name} is just being saved")
            self._saving.add(name)
        try:
            if self.has(name):
                raise EngineError(f"there is a saved desktop {name} already")
            self._make_room()
            self._keep_beside(name, files, screen)
            try:
                return computer.save(name, resume=resume)
            except BaseException:
                self._clear_beside(name)
                raise
        finally:
            with self._lock:
                self._saving.discard(name)

    def forget(self, name: str) -> None:
        """In a thread: a saved desktop is hundreds of megabytes. The next heartbeat shows whether it is gone."""
        if NAME.fullmatch(name) is None:
            log.warning("%r is no name of a saved desktop; nothing is forgotten", name[:120])
        elif self._engine is not None:
            threading.Thread(target=self._forget, args=(name,), name="forget", daemon=True).start()

    def forget_now(self, name: str) -> None:
        """Raises EngineError."""
        if self._engine is not None:
            self._engine.forget(name)
        self._clear_beside(name)

    def forget_all_but(self, images: Collection[str]) -> None:
        """Those that this worker makes by itself, of images (digests) that are gone. Raises EngineError."""
        for state in self._all():
            if state.name.startswith(MADE_ANEW) and state.image not in images:
                self.forget_now(state.name)

    def sweep(self) -> None:
        """Clear what belongs to no saved desktop: an earlier process was killed while it saved one."""
        held = {state.name for state in self._all()}
        for place in self._folder.iterdir():
            if place.name not in held:
                self._clear_beside(place.name)

    def too_small(self) -> str:
        """Why not even one can be saved here, by what all may take; empty where it can."""
        if self._limit >= LEAST_EXPECTED:
            return ""
        return f"Saved desktops may take {self.limit_mb} MB here, and one needs {LEAST_EXPECTED >> 20}."

    def has_room(self) -> bool:
        """Whether another can be saved and none has to leave for it. Raises EngineError."""
        states = self._all()
        expected = self._expected(states)
        return _bytes(states) + expected <= self._limit and self._disk_lasts(expected)

    def _make_room(self) -> None:
        """Have the least recently used leave until another fits. Raises NoRoom."""
        states = self._all()
        expected = self._expected(states)
        if expected > self._limit:
            raise NoRoom(f"saved desktops may take {self.limit_mb} MB here, and one needs {expected >> 20}")
        leaving = sorted(filter(self._may_leave, states), key=lambda state: state.used_at or state.made_at)
        while _bytes(states) + expected > self._limit or not self._disk_lasts(expected):
            if not leaving:
                full = f"{_bytes(states) >> 20} of {self.limit_mb} MB are in use"
                why = full if self._disk_lasts(expected) else "the disk is nearly full"
                raise NoRoom(f"there is no room for another saved desktop: {why}")
            first = leaving.pop(0)
            log.info("the saved desktop %s leaves to make room", first.name)
            self.forget_now(first.name)
            states = self._all()

    def _may_leave(self, state: SavedState) -> bool:
        with self._lock:
            return (
                state.name.startswith(MADE_ANEW)
                and state.name not in self._saving
                and not self._used[state.name]
            )

    def _expected(self, states: Collection[SavedState]) -> int:
        """Bytes of the next one, as the largest so far, and of those that are being saved."""
        largest = max([LEAST_EXPECTED, *(state.size_bytes for state in states)])
        with self._lock:
            return largest * max(1, len(self._saving))

    def _disk_lasts(self, expected: int) -> bool:
        return shutil.disk_usage(self._folder).free >= LEAST_FREE + expected

    def _all(self) -> list[SavedState]:
        return self._engine.states() if self._engine is not None else []

    def _forget(self, name: str) -> None:
        try:
            self.forget_now(name)
        except (EngineError, OSError) as error:
            log.error("the saved desktop %s could not be removed: %s", name, error)
        else:
            log.info("the saved desktop %s is forgotten", name)

    def _keep_beside(self, name: str, files: Path | None, screen: bytes | None) -> None:
        place = self._folder / name
        try:
            self._clear_beside(name)
            place.mkdir()
            if files is not None:
                shutil.copytree(files, place / "files")
            if screen is not None:
                (place / "screen.png").write_bytes(screen)
        except (OSError, shutil.Error) as error:
            self._clear_beside(name)
            raise EngineError(f"what belongs to the saved desktop cannot be written: {error}") from error

    def _clear_beside(self, name: str) -> None:
        shutil.rmtree(self._folder / name, ignore_errors=True)


def _bytes(states: Collection[SavedState]) -> int:
    return sum(state.size_bytes for state in states)
