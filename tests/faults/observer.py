"""Somebody who only watches the engine: when each container began and ended, by the engine's own event stream."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

import docker

from desktops.worker.engine.base import COMPUTER_LABEL, OWNER_LABEL


@dataclass
class Seen:
    """Seconds since 1970; None for what has not happened."""

    owner: str
    created: float
    started: float | None = None
    died: float | None = None
    removed: float | None = None


class Observer:
    """Watches from the moment it is made until `close`."""

    def __init__(self, address: str) -> None:
        self._client = docker.DockerClient(base_url=address, version="auto")
        self._lock = threading.Lock()
        self._seen: dict[str, Seen] = {}
        self._stream = self._client.events(
            since=datetime.now(UTC), decode=True, filters={"type": "container"}
        )
        self._thread = threading.Thread(target=self._watch, name="observer", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        for event in self._stream:
            labels = event["Actor"]["Attributes"]
            computer, owner = labels.get(COMPUTER_LABEL), labels.get(OWNER_LABEL)
            if not computer or not owner:
                continue
            at = event["timeNano"] / 1e9
            with self._lock:
                seen = self._seen.setdefault(computer, Seen(owner, at))
                what = {"start": "started", "die": "died", "died": "died"}.get(event["Action"])
                if event["Action"] in ("remove", "destroy"):
                    what = "removed"
                if what is not None and getattr(seen, what) is None:
                    setattr(seen, what, at)

    def of(self, owners: set[str]) -> dict[str, Seen]:
        """Every container of these workers, by computer."""
        with self._lock:
            return {computer: seen for computer, seen in self._seen.items() if seen.owner in owners}

    def left(self, owners: set[str]) -> list[str]:
        """Containers of these workers that exist now, in whatever state."""
        found = []
        for owner in owners:
            filters = {"label": f"{OWNER_LABEL}={owner}"}
            found += [box["Id"] for box in self._client.api.containers(all=True, filters=filters)]
        return found

    def close(self) -> None:
        self._stream.close()
        self._thread.join(5)
        self._client.close()
