"""One live desktop: what the engine made, and the guest agent in it."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Literal

from .engine.base import (
    Desk,
    DeskSpec,
    Engine,
    EngineError,
    Image,
    ImagingEngine,
    SavedState,
    SavingEngine,
    warm_state,
)
from .guest_client import Guest, GuestError, GuestUnreachable, wait_ready

log = logging.getLogger(__name__)

START_SECONDS = 60.0
SCREEN_SECONDS = 5.0
KEEPALIVE_SECONDS = 5.0
IMAGE_SILENCE_SECONDS = 900.0
RESTORED_SILENCE_SECONDS = 15.0
SAVE_TRIES, SAVE_AGAIN_SECONDS = 3, 0.3

# Names, by their beginning, of saved desktops that a worker makes by itself, and anew when they are of no use.
MADE_ANEW = ("warm-", "setup-")

# desktop_lost: the engine says it is gone. guest_unreachable: it runs, and its agent does not answer.
Loss = Literal["desktop_lost", "guest_unreachable"]


class StartFailed(Exception):
    """No ready desktop came of it; nothing of it is left. The message says how far it came."""


class Computer:
    """Use as a context manager: whatever happens inside, the desktop is gone afterwards.

    start() → ready, or StartFailed with the desktop already removed. stop() may be called any number of
    times.
    """

    def __init__(self, engine: Engine, spec: DeskSpec, start_seconds: float = START_SECONDS) -> None:
        self.engine = engine
        self.spec = spec
        self.id = spec.computer
        self.made = time.monotonic()
        self.start_seconds = start_seconds
        self.started_at: datetime | None = None
        self.ready_at: datetime | None = None
        self.stopped_at: datetime | None = None
        self.ready_seconds = 0.0
        self._paid_until = spec.paid_until
        self._limits = threading.Lock()  # of its watchdog: not changed by two at once, nor while it is saved
        self._desk: Desk | None = None
        self._guest: Guest | None = None
        self._stopping = threading.Event()
        self._stop_lock = threading.Lock()
        self._keeper: threading.Thread | None = None
        self._screens: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._screens_lock = threading.Lock()

    @property
    def guest(self) -> Guest:
        if self._guest is None:
            raise RuntimeError("the computer has not been started")
        return self._guest

    @property
    def ref(self) -> str:
        """The engine's own name for the desktop; empty before it exists."""
        return self._desk.ref if self._desk else ""

    @property
    def image_id(self) -> str:
        """Id of the image it was made of; empty where there is none."""
        return self._desk.image_id if self._desk else ""

    @property
    def restored(self) -> bool:
        """Whether it came from a saved desktop."""
        return self._desk is not None and self._desk.restored

    @property
    def started_from(self) -> str:
        """Name of the saved desktop it came from; empty for one that had a cold start."""
        return (self.spec.state or warm_state(self.spec.image)) if self.restored else ""

    def create(self) -> datetime:
        """Make the desktop exist; it costs from the returned instant on. Raises StartFailed."""
        try:
            self._desk = self.engine.create(self.spec)
        except EngineError as error:
            raise StartFailed(str(error)) from error
        self.started_at = self._desk.started_at
        self._guest = Guest(self._desk.connect)
        return self.started_at

    def hand_over(self, paid_until: datetime | None) -> datetime:
        """It was ready before anybody asked: it costs from the returned instant on. wait_ready() comes next."""
        assert self._desk is not None
        self.spec = replace(self.spec, paid_until=paid_until)
        self._paid_until = paid_until
        if paid_until is not None:
            self._desk.set_paid_until(paid_until)
        self.started_at = datetime.now(UTC)
        return self.started_at

    def wait_ready(self) -> float:
        """Wait until screen, window manager, bus, wallpaper and agent answer; seconds since create().

        Raises StartFailed, with the desktop removed, when it went away or time ran out.
        """
        if self._desk is None or self.started_at is None:
            raise RuntimeError("create() comes first")
        restored = bool(self.started_from)
        as_saved = restored and not self.started_from.startswith(MADE_ANEW)
        readiness = wait_ready(
            self.guest, self.start_seconds, self._running, restored=restored, as_saved=as_saved
        )
        if not readiness.ready:
            taken = (datetime.now(UTC) - self.started_at).total_seconds()
            why = readiness.detail if self._running() else "it ended while it was starting"
            log.warning("desktop %s is not ready after %.0f s: %s\n%s", self.id, taken, why, self._logs())
            self.stop()
            if self.started_from.startswith(MADE_ANEW) and isinstance(self.engine, SavingEngine):
                self.engine.forget(self.started_from)  # the next one starts from the beginning
            raise StartFailed(f"the desktop was not ready after {taken:.0f} s: {why}")
        if self.restored:  # its watchdog still has the limits of the desktop that was saved
            with self._limits:
                self._set_limits()
        self.ready_at = datetime.now(UTC)
        self.ready_seconds = (self.ready_at - self.started_at).total_seconds()
        if self._keeper is None:
            keeper = threading.Thread(target=self._keep, name=f"keepalive-{self.id[:8]}", daemon=True)
            keeper.start()
            self._keeper = keeper  # only now: stop(), from another thread, waits for its end
        return self.ready_seconds

    def start(self) -> Computer:
        """create(), then wait_ready()."""
        self.create()
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def save(self, name: str, *, resume: bool) -> SavedState:
        """Keep it, as it is now, under that name; then it goes on, or has ended. Blocks other calls meanwhile.

        Raises GuestError or EngineError with nothing kept.
        """
        if self._desk is None or not isinstance(self.engine, SavingEngine):
            raise EngineError("this engine cannot save a live desktop")
        with self._limits:
            # One that comes back is no longer paid for by whoever paid for this one; and if its worker is killed
            # before it said how long it may live, it ends by itself soon.
            self.guest.set_paid_until(None)
            self.guest.set_silence_limit(RESTORED_SILENCE_SECONDS)
            try:
                with self.guest.silence(), self._unseen():
                    state = self._insist_on_saving(self.engine, self._desk, name, resume)
            except BaseException:
                with contextlib.suppress(GuestError):  # then it has not survived, as the next call finds out
                    self._set_limits()
                raise
            if resume:
                self._set_limits()
        return state

    def make_image(self, name: str, version: int) -> Image:
        """Of its files as they are now; then it goes on. Raises GuestError or EngineError."""
        if self._desk is None or not isinstance(self.engine, ImagingEngine):
            raise EngineError("this engine cannot make an image of a desktop: it needs containers")
        # It stands still for a while, in which its agent hears nothing; what it is paid for still ends it.
        self.guest.set_silence_limit(IMAGE_SILENCE_SECONDS)
        try:
            return self.engine.make_image(self._desk, name, version)
        finally:
            with self._limits, contextlib.suppress(GuestError):  # gone meanwhile, as the next call finds out
                self._set_limits()

    def _set_limits(self) -> None:
        self.guest.set_silence_limit(self.spec.silence_seconds)
        self.guest.set_paid_until(self._paid_until)

    def _insist_on_saving(self, engine: SavingEngine, desk: Desk, name: str, resume: bool) -> SavedState:
        """The agent may still be closing a connection, and then nothing can be saved: try again."""
        for left in reversed(range(SAVE_TRIES)):
            try:
                return engine.save(desk, name, resume=resume)
            except EngineError as error:
                if not left or desk.state() != "running" or self._stopping.wait(SAVE_AGAIN_SECONDS):
                    raise
                log.info("saving desktop %s is tried again: %s", self.id, error)
        raise AssertionError("the last try returns or raises")

    def screen(self, timeout: float = SCREEN_SECONDS) -> socket.socket:
        """A connection to its screen, which speaks RFB; saving the desktop breaks it. Raises OSError."""
        with self._screens_lock:
            if self._desk is None:
                raise ConnectionRefusedError("the desktop has not been started")
            connection = self._desk.connect(timeout, "rfb")
            self._screens.add(connection)
        return connection

    @contextlib.contextmanager
    def _unseen(self) -> Iterator[None]:
        """Nobody may be connected to a desktop that is saved: whoever watches is cut off, and may come back."""
        with self._screens_lock:
            for connection in self._screens:
                with contextlib.suppress(OSError):  # it has ended by itself
                    connection.shutdown(socket.SHUT_RDWR)
            yield

    def set_paid_until(self, at: datetime) -> None:
        """Move the instant at which the desktop ends itself, or is ended. Raises GuestError."""
        if self._desk is not None:
            self._desk.set_paid_until(at)
        with self._limits:
            self._paid_until = at
            self.guest.set_paid_until(at)

    def lost(self, patience: float = 2.0) -> Loss | None:
        """Why a call to the guest failed: gone, unreachable, or (None) neither: it answers now.

        An accepted mistake: a desktop that hangs longer than `patience` seconds counts as unreachable.
        """
        end = time.monotonic() + patience
        while True:
            if not self._running():
                return "desktop_lost"
            try:
                self.guest.keepalive()
            except GuestUnreachable:
                if time.monotonic() >= end:
                    return "guest_unreachable"
                time.sleep(0.05)  # between two probes
            else:
                return None

    def stop(self) -> datetime:
        """End and remove the desktop; the instant it was seen gone. Raises EngineError if it may still
        exist.
        """
        self._stopping.set()
        with self._stop_lock:
            if self._guest is not None:
                self._guest.end()
            if self.stopped_at is None:
                self.stopped_at = self.engine.remove(self._desk) if self._desk else datetime.now(UTC)
        if self._keeper is not None and self._keeper is not threading.current_thread():
            self._keeper.join(timeout=KEEPALIVE_SECONDS + 15)
        return self.stopped_at

    def __enter__(self) -> Computer:
        return self if self._desk else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running(self) -> bool:
        try:
            return self._desk is not None and self._desk.state() == "running"
        except EngineError as error:
            # An engine that does not answer says nothing about the desktop: the agent's own answer decides.
            log.warning("cannot ask the engine about %s: %s", self.id, error)
            return True

    def _logs(self) -> str:
        with contextlib.suppress(EngineError):
            return self._desk.logs().strip()[-2000:] if self._desk else ""
        return ""

    def _keep(self) -> None:
        """Feed the guest's watchdog until stop(). A miss is no loss: whoever plays on the desktop finds
        out.
        """
        while not self._stopping.wait(KEEPALIVE_SECONDS):
            try:
                self.guest.keepalive()
            except GuestError as error:
                log.debug("no keepalive for %s: %s", self.id, error)
