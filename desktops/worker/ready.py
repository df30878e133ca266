"""Desktops that are there before somebody asks: a few of each template that has been asked for lately.

Until it is handed out such a desktop is nobody's: no ledger knows it, and what it takes of this machine is the worker's
own. It comes from the image's saved desktop and stands idle; nobody has acted on it. If the worker is killed, it ends
as whatever nothing pays for: at once where something beside the worker can do that, else by its own watchdog.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from desktops.protocol.attempt import TemplatePin

from .computer import Computer, StartFailed
from .engine.base import DeskSpec, Engine, EngineError, SavingEngine, warm_state
from .guest_client import GuestError
from .states import LEAST_FREE, States

log = logging.getLogger(__name__)

LATELY_SECONDS = 300.0  # whoever asks keeps a desktop ready for that long, and none gets older
PATIENCE_SECONDS = 0.5  # for its answer before it is handed out
LEAST_MEMORY = 2 << 30  # bytes that must be available beside them
MEMORY = Path("/proc/meminfo")


class Ready:
    """`keep_up` from one thread, everything else from any. `most` is how many there may be in all."""

    def __init__(self, engine: Engine, states: States, folder: Path, *, most: int) -> None:
        self._engine, self._states, self._folder = engine, states, folder
        self._most = most if isinstance(engine, SavingEngine) else 0
        self._lock = threading.Lock()
        self._asked: dict[TemplatePin, deque[float]] = {}  # when, as often as counts
        self._standing: list[tuple[TemplatePin, Computer]] = []  # oldest first
        self._between: set[str] = set()  # computers that are being made, handed out or removed
        self.asked = threading.Event()
        self.free_slots: Callable[[], int] = lambda: most  # of this machine, those ready not counted

    def __len__(self) -> int:
        with self._lock:
            return len(self._standing)

    def __contains__(self, computer: object) -> bool:
        with self._lock:
            return computer in self._between or any(computer == one.id for _, one in self._standing)

    @contextlib.contextmanager
    def take(self, template: TemplatePin) -> Iterator[Computer | None]:
        """One that answers, which is the caller's when the context ends well; None where there is none.

        Having asked is what keeps others ready. Some that stand make room for what is started instead.
        """
        self._ask(template)
        found = self._find(template)
        try:
            if found is None:
                self._make_room()
            yield found
        except BaseException:
            if found is not None:
                self._remove(found)
            raise
        finally:
            if found is not None:
                self._leave(found.id)

    def keep_up(self, images: Collection[str]) -> None:
        """Have as many as were asked for lately of those images (digests), and no others. Raises EngineError."""
        self._forget_old(images)
        short = self._is_short()
        with self._lock:
            leaving = [one for pin, one in self._standing if short or not self._is_wanted(pin, one)]
        for computer in leaving:
            if self._pull(computer):
                self._remove(computer)
        while not short and (template := self._next()) is not None:
            if not self._make(template):
                return

    def drop(self, image: str) -> None:
        """Those of that image (digest), and nothing is asked of it any longer."""
        with self._lock:
            self._asked = {pin: times for pin, times in self._asked.items() if pin.digest != image}
            leaving = [one for pin, one in self._standing if pin.digest == image]
        for computer in leaving:
            if self._pull(computer):
                self._remove(computer)

    def close(self) -> None:
        """None is left, unless it cannot be removed: a sweep finds that. `keep_up` is not called again."""
        with self._lock:
            leaving = [one for _, one in self._standing]
        for computer in leaving:
            if self._pull(computer):
                self._remove(computer)

    # ── asking ────────────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, template: TemplatePin) -> None:
        if self._most and template.egress == "none":
            with self._lock:
                self._asked.setdefault(template, deque(maxlen=self._most)).append(time.monotonic())
            self.asked.set()

    def _find(self, template: TemplatePin) -> Computer | None:
        while True:
            with self._lock:
                found = next((one for pin, one in self._standing if pin == template), None)
            if found is None:
                return None
            if self._pull(found):
                if found.lost(PATIENCE_SECONDS) is None:
                    return found
                log.warning("desktop %s, which was ready, does not answer and goes", found.id)
                self._remove(found)

    def _make_room(self) -> None:
        while True:
            with self._lock:
                first = next((one for _, one in self._standing), None)
                count = len(self._standing)
            if first is None or count <= self.free_slots():
                return
            if self._pull(first):
                self._remove(first)

    # ── keeping ───────────────────────────────────────────────────────────────────────────────────────────

    def _forget_old(self, images: Collection[str]) -> None:
        since = time.monotonic() - LATELY_SECONDS
        with self._lock:
            for template, times in list(self._asked.items()):
                while times and times[0] < since:
                    times.popleft()
                if not times or template.digest not in images:
                    del self._asked[template]

    def _is_wanted(self, template: TemplatePin, computer: Computer) -> bool:
        """The lock is held."""
        return template in self._asked and time.monotonic() - computer.made < LATELY_SECONDS

    def _is_short(self) -> bool:
        available = next(line for line in MEMORY.read_text().splitlines() if line.startswith("MemAvailable"))
        memory = int(available.split()[1]) << 10
        return memory < LEAST_MEMORY or shutil.disk_usage(self._folder).free < LEAST_FREE

    def _next(self) -> TemplatePin | None:
        """What another is to be made of: of what is missing, that which was asked for last. Raises EngineError."""
        with self._lock:
            standing = [pin for pin, _ in self._standing]
            missing = [pin for pin, times in self._asked.items() if len(times) > standing.count(pin)]
            if len(standing) >= self._most:
                return None
            missing.sort(key=lambda pin: self._asked[pin][-1], reverse=True)
        if len(standing) >= self.free_slots():
            return None
        return next((pin for pin in missing if self._states.has(warm_state(pin.digest))), None)

    def _make(self, template: TemplatePin) -> bool:
        """Whether one more stands."""
        spec = DeskSpec(
            computer=str(uuid.uuid4()),
            image=template.digest,
            memory_mb=template.memory_mb,
            cpus=template.cpus,
            state=warm_state(template.digest),
        )
        with self._lock:
            self._between.add(spec.computer)
        try:
            computer = Computer(self._engine, spec).start()
            with self._lock:
                self._standing.append((template, computer))
        except (StartFailed, GuestError) as error:
            log.warning("no desktop of %s is kept ready for now: %s", template.name, error)
            return False
        finally:
            self._leave(spec.computer)
        self._make_room()  # slots may have been taken meanwhile
        return True

    # ── leaving ───────────────────────────────────────────────────────────────────────────────────────────

    def _pull(self, computer: Computer) -> bool:
        """Whether it stood until now: it is the caller's to hand out or to remove."""
        with self._lock:
            rest = [entry for entry in self._standing if entry[1] is not computer]
            stood = len(rest) < len(self._standing)
            self._standing = rest
            if stood:
                self._between.add(computer.id)
        return stood

    def _remove(self, computer: Computer) -> None:
        try:
            computer.stop()
        except EngineError as error:
            log.error("desktop %s, which was ready, is left to the sweep: %s", computer.id, error)
        finally:
            self._leave(computer.id)

    def _leave(self, computer: str) -> None:
        with self._lock:
            self._between.discard(computer)
