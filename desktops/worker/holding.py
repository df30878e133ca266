"""A computer that somebody has opened: it is there until it is ended, and does what it is asked meanwhile."""

from __future__ import annotations

import contextlib
import queue
import time
import uuid
from pathlib import Path
from typing import Any

from desktops.protocol import messages
from desktops.protocol.attempt import Attestation
from desktops.protocol.hold import Answered, HoldEnded, HoldOrder

from .attest import attest
from .computer import Computer, StartFailed
from .engine.base import DeskSpec, EngineError, Image, ImagingEngine
from .faults import Fault, NotReady, Phase
from .guest_client import GuestError, GuestUnreachable
from .hold import Hold
from .session import Session, now

WATCH_SECONDS = 3.0  # between two looks whether the desktop is still there
PATIENCE_SECONDS = 10.0  # a desktop of a busy person may hang for a moment


class HoldRun(Session):
    """One computer.

    1. Start it, from the saved desktop that is named, or of its template.
    2. Do what is asked, one after another, and answer each; until somebody ends it, or its desktop is gone.
    """

    def __init__(self, order: HoldOrder, **surroundings: Any) -> None:
        super().__init__(order, **surroundings)
        self._order = order
        self._asks: queue.SimpleQueue[messages.Ask | None] = queue.SimpleQueue()
        self._known: set[str] = set()
        self._trial = ""  # the desktop that is started of an image just made

    @property
    def computers(self) -> set[str]:
        return {*super().computers, self._trial}

    def __str__(self) -> str:
        return f"computer {self._order.hold_id}"

    def ask(self, ask: messages.Ask) -> None:
        """Each is done once, however often it is asked."""
        with self._lock:
            if ask.ask in self._known:
                return
            self._known.add(ask.ask)
        self._asks.put(ask)

    def hand_over(self, by: str) -> Hold:
        """Whoever opened it may act on it at any time: nothing else does."""
        return Hold(by)

    def end(self, detail: str, reason: Any = None) -> None:
        super().end(detail, reason)
        self._asks.put(None)

    def _play(self, folder: Path) -> None:
        with self._states.using(self._order.state):
            computer = self._start(self._order.state)
        self._phase = Phase.PLAYING
        while True:
            ask = self._next(computer)
            self._check_ending()
            if ask is not None:
                self._insist(Answered(at=now(), ask=ask.ask, **self._done(computer, ask)))

    def _next(self, computer: Computer) -> messages.Ask | None:
        """None now and then, and when it is to end. Raises GuestUnreachable."""
        try:
            return self._asks.get(timeout=WATCH_SECONDS)
        except queue.Empty:
            if computer.lost(PATIENCE_SECONDS):
                raise GuestUnreachable("its agent does not answer") from None
            return None

    def _done(self, computer: Computer, ask: messages.Ask) -> dict[str, Any]:
        """What the answer says of it: an image, nothing, or why it could not be done."""
        try:
            if isinstance(ask.do, messages.Save):
                self._save(computer, ask.do.name)
                return {}
            made = self._make_image(computer, ask.do)
        except (GuestError, EngineError) as error:
            self._check_ending()
            return {"error": str(error)[:4000]}
        return {"image": messages.WorkerImage(name=made.name, version=made.version, digest=made.digest)}

    def _make_image(self, computer: Computer, do: messages.MakeImage) -> Image:
        """One of which a desktop gets ready, as is seen by starting one: what is published cannot be mended.

        Raises GuestError or EngineError; then there is no image.
        """
        there = {image.digest for image in self._engine.images()}
        made = computer.make_image(do.template, do.version)
        if made.digest in there:
            return made
        template, self._trial = self._order.template, str(uuid.uuid4())
        spec = DeskSpec(self._trial, made.digest, memory_mb=template.memory_mb, cpus=template.cpus)
        try:
            with Computer(self._engine, spec):
                return made
        except StartFailed as error:
            assert isinstance(self._engine, ImagingEngine)
            self._engine.forget_image(made.digest)
            raise EngineError(f"A desktop with these files does not get ready: {error}") from error
        finally:
            self._trial = ""

    def _save(self, computer: Computer, name: str) -> None:
        attestation: Attestation | None = None
        screen: bytes | None = None
        # One that never rests (a video plays) is saved without: its copies are wanted, if they cannot be compared.
        with contextlib.suppress(NotReady):
            attestation, screen = attest(computer.guest, self._recorder.keep)
        began = time.monotonic()
        saved = self._states.save(computer, name, resume=True, screen=screen)
        self._record_saved(computer, saved, began, attestation)

    def _last_record(self, fault: Fault | None, *, detail: str, stopped: bool) -> HoldEnded:
        return HoldEnded(
            at=now(),
            ok=stopped,
            invalid_reasons=[fault.reason] if fault and fault.reason else [],
            detail=detail,
            stopped=stopped,
        )
