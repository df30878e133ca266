"""The desktops that this worker has saved, as the console is told of them and as it has them forgotten."""

from __future__ import annotations

import logging
import re
import threading

from desktops.protocol.messages import HeldState

from .engine.base import Engine, EngineError, SavingEngine

log = logging.getLogger(__name__)

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")  # it becomes a folder's name: never a path


class States:
    """Use from any thread. Without an engine that saves there are none."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine if isinstance(engine, SavingEngine) else None

    def held(self) -> list[HeldState] | None:
        """All of them; None where they cannot be looked at just now."""
        if self._engine is None:
            return []
        try:
            states = self._engine.states()
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

    def forget(self, name: str) -> None:
        """In a thread: a saved desktop is hundreds of megabytes. The next heartbeat shows whether it is gone."""
        if NAME.fullmatch(name) is None:
            log.warning("%r is no name of a saved desktop; nothing is forgotten", name[:120])
        elif self._engine is not None:
            args = (self._engine, name)
            threading.Thread(target=_forget, args=args, name="forget", daemon=True).start()


def _forget(engine: SavingEngine, name: str) -> None:
    try:
        engine.forget(name)
    except (EngineError, OSError) as error:
        log.error("the saved desktop %s could not be removed: %s", name, error)
    else:
        log.info("the saved desktop %s is forgotten", name)
