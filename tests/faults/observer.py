"""Somebody who only watches: when each desktop began and ended, by the engine's or the kernel's own word."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from desktops.worker.engine.base import COMPUTER_LABEL, OWNER_LABEL
from desktops.worker.engine.dial import dial
from desktops.worker.engine.runc import rehearsal

GROUP_LOOK_SECONDS = 0.1
EVENTS_LOOK_SECONDS, EVENTS_AGAIN_SECONDS, EVENTS_TRIES = 5.0, 5.0, 4


@dataclass
class Seen:
    """Seconds since 1970; None for what has not happened. `for_itself`: its worker made it for no assignment."""

    owner: str
    created: float
    started: float | None = None
    died: float | None = None
    removed: float | None = None
    for_itself: bool = False


class Observer(Protocol):
    def of(self, owners: set[str]) -> dict[str, Seen]:
        """Every desktop of these workers so far, by computer."""
        ...

    def left(self, owners: set[str]) -> list[str]:
        """Desktops of these workers that exist now, in whatever state."""
        ...

    def close(self) -> None: ...


class Containers:
    """By the container engine's own log of events, from the moment this is made until `close`. It is read again and
    again: a stream of it may end without a word when the engine begins a new log."""

    def __init__(self, address: str) -> None:
        self._client = dial(address, 60)
        self._lock = threading.Lock()
        self._seen: dict[str, Seen] = {}
        self._read_until = time.time()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="observer", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._closing.wait(EVENTS_LOOK_SECONDS):
            self._read()

    def _read(self) -> None:
        """What has been logged since the last time, and a moment before: what is told twice changes nothing."""
        with self._lock:
            now = time.time()
            # An end that is not over yet: Podman tells nothing of what ended before it was asked.
            since, until = int(self._read_until - EVENTS_AGAIN_SECONDS), int(now) + 1
            events = self._client.events(since=since, until=until, decode=True, filters={"type": "container"})
            for event in events:
                self._note(event)
            self._read_until = now

    def _note(self, event: dict[str, Any]) -> None:
        labels = event["Actor"]["Attributes"]
        computer, owner = labels.get(COMPUTER_LABEL), labels.get(OWNER_LABEL)
        if not computer or not owner:
            return
        at = event["timeNano"] / 1e9
        seen = self._seen.setdefault(computer, Seen(owner, at))
        what = {"start": "started", "die": "died", "died": "died"}.get(event["Action"])
        if event["Action"] in ("remove", "destroy"):
            what = "removed"
        if what is not None and getattr(seen, what) is None:
            setattr(seen, what, at)

    def of(self, owners: set[str]) -> dict[str, Seen]:
        for _ in range(EVENTS_TRIES):  # what was logged a moment ago may be missing from the engine's answer
            self._read()
            with self._lock:
                found = {computer: seen for computer, seen in self._seen.items() if seen.owner in owners}
            if all(seen.removed for seen in found.values()):
                break
        return found

    def left(self, owners: set[str]) -> list[str]:
        found = []
        for owner in owners:
            filters = {"label": f"{OWNER_LABEL}={owner}"}
            found += [box["Id"] for box in self._client.api.containers(all=True, filters=filters)]
        return found

    def close(self) -> None:
        self._closing.set()
        self._thread.join(10)
        self._client.close()


class ControlGroups:
    """By the kernel: what runs under `/deskyard/COMPUTER`, looked at many times a second until `close`. Whose it
    is tells the box that it was started from, in one of the workers' `homes`; one without has the owner ""."""

    def __init__(self, homes: Path) -> None:
        groups = Path("/sys/fs/cgroup")
        self._root = (groups / "pids" if (groups / "pids").is_dir() else groups) / "deskyard"
        self._homes = homes
        self._lock = threading.Lock()
        self._seen: dict[str, Seen] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="observer", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._closing.wait(GROUP_LOOK_SECONDS):
            now = time.time()
            live = {group.name for group in _folders(self._root) if _runs(group)}
            with self._lock:
                for computer in live - self._seen.keys():
                    self._seen[computer] = self._begun(computer, now)
                for computer, seen in self._seen.items():
                    if (
                        computer in live
                    ):  # also once it comes again: a saved one that was of no use is started cold
                        seen.died = seen.removed = None
                    elif seen.died is None:
                        seen.died = seen.removed = now

    def _begun(self, computer: str, now: float) -> Seen:
        seen = Seen("", now, now)
        with contextlib.suppress(FileNotFoundError):  # its box is gone already
            for box in self._homes.glob(f"*/desktops/boxes/{computer}"):
                seen.for_itself = not (box / "paid_until").exists()
                # By a small program of its own a worker that begins sees whether this machine can save desktops.
                if (box / "recipe").read_text() != rehearsal.NAME:
                    seen.owner = (box.parents[2] / "owner").read_text().strip()
        return seen

    def of(self, owners: set[str]) -> dict[str, Seen]:
        with self._lock:
            return {name: seen for name, seen in self._seen.items() if seen.owner in {*owners, ""}}

    def left(self, owners: set[str]) -> list[str]:
        with self._lock:
            theirs = [name for name, seen in self._seen.items() if seen.owner in owners]
        return [computer for computer in theirs if _runs(self._root / computer)]

    def close(self) -> None:
        self._closing.set()
        self._thread.join(5)


def _folders(path: Path) -> list[Path]:
    """Those in it; none when it has gone meanwhile, as these do."""
    try:
        return [Path(entry.path) for entry in os.scandir(path) if entry.is_dir()]
    except OSError:
        return []


def _runs(group: Path) -> bool:
    """Whether a process is in it, or in one below it."""
    try:
        return any((each / "cgroup.procs").read_text() for each in (group, *_folders(group)))
    except OSError:
        return False
