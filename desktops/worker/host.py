"""What this machine works at: assignments by id and epoch, each in a thread, with its money and its end."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, get_args

from pydantic import ValidationError

from desktops.protocol import messages
from desktops.protocol.attempt import ComputerStarted, ComputerStopped, InvalidReason

from .blobs import BlobStore
from .computer import Computer
from .config import Config
from .endings import LAST_RECORDS, ended
from .engine.base import Engine, EngineError, EngineFacts, ImagingEngine, SavingEngine, SweepReport
from .hold import Hold, NotNow
from .ready import Ready
from .recorder import Recorder
from .spool import Spool, SpoolFull, Taken
from .states import States
from .warm import Warmer

log = logging.getLogger(__name__)

VERSION = "0.1.0"
SWEEP_SECONDS = 60.0  # between two looks for desktops that nobody owns
IMAGES_SECONDS = 10.0  # between two looks at the images: one just built is offered work soon
# A desktop is ended this long before its money is. Removing one takes 0.1 s on an idle machine and was seen to take
# 2.5 s on one with ten times the load it can bear; nothing may be over.
STOP_EARLY = timedelta(seconds=3)
CLOSE_SECONDS = 25.0  # what running work may take to end when the worker is shut down


class Work(Protocol):
    """One assignment being worked at. `run` records everything, its last record included."""

    @property
    def computers(self) -> set[str]: ...
    @property
    def image(self) -> str: ...
    def run(self) -> None: ...
    def end(self, detail: str, reason: InvalidReason | None = None) -> None: ...
    def extend(self, paid_until: datetime) -> None: ...
    def ask(self, ask: messages.Ask) -> None: ...
    def desktop(self, computer: str) -> Computer | None: ...
    def hand_over(self, by: str) -> Hold: ...


Build = Callable[[dict[str, Any], Recorder, datetime, threading.Event], Work]
"""(payload, recorder, paid_until, closing) → work; raises pydantic's ValidationError for a bad payload."""


@dataclass(eq=False)
class Assignment:
    """`work` is None for one that an earlier process left, and for one whose payload could not be read."""

    id: str
    epoch: int
    paid_until: datetime
    work: Work | None = None
    thread: threading.Thread | None = None
    done: threading.Event = field(default_factory=threading.Event)
    ending: tuple[str, InvalidReason | None] | None = None

    def end(self, detail: str, reason: InvalidReason | None = None) -> None:
        """Ask the work to end, now or as soon as it has been built. The first to ask gives the reason."""
        if self.done.is_set() or self.ending is not None:
            return
        self.ending = (detail, reason)
        if self.work is not None:
            self.work.end(detail, reason)


class Host:
    """The link's listener. Its `on_…` methods run on the link's event loop and do not wait for a desktop."""

    def __init__(
        self,
        *,
        config: Config,
        engine: Engine,
        facts: EngineFacts,
        spool: Spool,
        blobs: BlobStore,
        states: States,
        ready: Ready | None = None,
        kinds: Mapping[str, Build],
    ) -> None:
        self._config, self._engine, self._facts = config, engine, facts
        self._spool, self._blobs, self._kinds = spool, blobs, kinds
        self.slots = max(1, min(config.slots or facts.slots, facts.slots))
        self._lock = threading.RLock()
        self._assignments: dict[str, Assignment] = {}
        self._images: list[messages.WorkerImage] = []
        self._swept: SweepReport | None = None
        self._closing = threading.Event()  # no new work, the keepers end
        self._giving_up = threading.Event()  # nothing may insist on an ending any longer
        self._asked_for: set[str] = set()  # digests of images that work has started from
        self._idle = threading.Event()  # the last work has just ended
        self._deadlines = threading.Event()  # some paid_until has changed
        can_save = isinstance(engine, SavingEngine) and config.warm
        self._states = states
        self._ready = Ready(engine, states, config.home, most=0) if ready is None else ready
        self._ready.free_slots = self._free_slots
        self._wanted = (
            self._ready.asked
        )  # a desktop of an image is, so that one be saved and some stand ready
        self._warmer = Warmer(engine, states, self._closing) if can_save else None
        self._keepers: list[threading.Thread] = []
        self.on_change: Callable[[], None] = lambda: None  # something held has changed
        self.on_view: Callable[[messages.OpenView], None] = lambda view: (
            None
        )  # somebody wants to see a desktop

    # ── life ──────────────────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Clear away what an earlier process left, then watch over money and orphans. Raises EngineError."""
        self._blobs.keep_only(self._spool.named_blobs())
        shutil.rmtree(self._config.scratch, ignore_errors=True)
        self._config.scratch.mkdir(parents=True)
        self._sweep()
        self._states.sweep()
        self._recover()
        self._look_at_images()
        keepers = [("money", self._watch_money), ("reaper", self._reap)]
        if self._warmer is not None:
            keepers.append(("warmer", self._keep_warm))
        for name, target in keepers:
            keeper = threading.Thread(target=target, name=name, daemon=True)
            keeper.start()
            self._keepers.append(keeper)

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Say so, end all work and wait for it; then whatever still has our label goes."""
        self._closing.set()
        self.on_change()
        self._deadlines.set()
        self._idle.set()
        self._wanted.set()
        with self._lock:
            running = [item for item in self._assignments.values() if not item.done.is_set()]
            for item in running:
                item.end("the worker was shut down", "worker_stopped")
        until = time.monotonic() + seconds
        for item in running:
            item.done.wait(max(0.0, until - time.monotonic()))
        self._giving_up.set()
        for keeper in self._keepers:
            keeper.join(timeout=5)
        self._ready.close()
        try:
            self._sweep(keep=())  # a keeper may still be at one of its own
        except EngineError as error:
            log.error("the last sweep failed: %s", error)

    # ── what the console wants ────────────────────────────────────────────────────────────────────────────

    def on_offer(self, offer: messages.Offer) -> None:
        """Take it, unless this epoch or a later one was taken; a later epoch replaces an earlier one."""
        with self._lock:
            held = self._assignments.get(offer.assignment)
            if held is not None and held.epoch >= offer.epoch:
                return
            if self._closing.is_set():
                self._turn_down(offer, "the worker is being shut down", "worker_stopped")
                return
            build = self._kinds.get(offer.kind)
            if build is None:
                log.warning("an offer of the unknown kind %r is ignored", offer.kind)
                return
            replaces = held is not None and not held.done.is_set()
            if self._busy() - int(replaces) >= self.slots:
                log.warning(
                    "all %d slots are in use: assignment %s is not taken", self.slots, offer.assignment
                )
                return
            try:
                if not self._spool.take(offer.assignment, offer.epoch, offer.kind, offer.paid_until):
                    log.info("assignment %s epoch %d was taken before", offer.assignment, offer.epoch)
                    return
            except SpoolFull as error:
                log.error("assignment %s is not taken: %s", offer.assignment, error)
                return
            item = Assignment(offer.assignment, offer.epoch, offer.paid_until)
            self._assignments[offer.assignment] = item
            if held is not None:
                held.end("the console has given the assignment a newer lease")
            item.thread = threading.Thread(
                target=self._work,
                args=(item, build, offer, held),
                name=f"work-{item.id[:8]}",
                daemon=True,
            )
            item.thread.start()
        self._deadlines.set()
        self.on_change()

    def on_extend(self, extend: messages.Extend) -> None:
        with self._lock:
            item = self._assignments.get(extend.assignment)
            if item is None or item.epoch != extend.epoch:
                return
            item.paid_until = extend.paid_until
            if item.work is not None:
                item.work.extend(extend.paid_until)
        try:
            self._spool.extend(extend.assignment, extend.epoch, extend.paid_until)
        except SpoolFull as error:
            log.error("%s; only the account of a killed worker would need this", error)
        self._deadlines.set()

    def on_stop(self, stop: messages.Stop) -> None:
        """A reason that is one of the invalid reasons makes the attempt invalid; any other just stops it.

        What was never taken here (it was offered while this worker was away, or full) is ended all the same, so
        that nobody waits for its lease to run out.
        """
        detail = f"stopped by the console: {stop.reason}"
        reason: Any = stop.reason if stop.reason in get_args(InvalidReason) else None
        with self._lock:
            item = self._assignments.get(stop.assignment)
            if item is not None:
                if item.epoch == stop.epoch:
                    item.end(detail, reason)
                return
            self._turn_down(stop, detail, reason)

    def _turn_down(
        self, told: messages.Offer | messages.Stop, detail: str, reason: InvalidReason | None
    ) -> None:
        """End what was never begun here. The lock is held."""
        if told.kind not in LAST_RECORDS:
            log.warning("a %s of the unknown kind %r is ignored", told.type, told.kind)
            return
        try:
            if self._spool.take(told.assignment, told.epoch, told.kind, datetime.now(UTC)):
                item = Assignment(told.assignment, told.epoch, datetime.now(UTC))
                item.done.set()
                self._assignments[item.id] = item
                self._recorder(item.id, item.epoch).record(ended(told.kind, detail, reason))
        except SpoolFull as error:
            log.error("the %s of %s cannot be answered: %s", told.type, told.assignment, error)

    def on_forget(self, forget: messages.Forget) -> None:
        self._states.forget(forget.state)

    def on_forget_image(self, forget: messages.ForgetImage) -> None:
        """In a thread: an image has gigabytes. One that is in use stays; the next connection is told again."""
        threading.Thread(
            target=self._forget_image, args=(forget.digest,), name="forget-image", daemon=True
        ).start()

    def _forget_image(self, digest: str) -> None:
        if not isinstance(self._engine, ImagingEngine):
            return
        self._ready.drop(digest)
        try:
            self._engine.forget_image(digest)
            self._look_at_images()
        except EngineError as error:
            log.error("the image %s stays for now: %s", digest[:19], error)
        else:
            log.info("the image %s is forgotten", digest[:19])

    def on_ask(self, ask: messages.Ask) -> None:
        """What is not held here needs no answer: its computer has ended, which the console is told."""
        with self._lock:
            item = self._assignments.get(ask.assignment)
            if item is not None and item.epoch == ask.epoch and item.work is not None:
                item.work.ask(ask)

    def seat(self, view: messages.OpenView) -> tuple[Computer, Hold | None]:
        """The desktop to be seen, and for whoever drives their hold on it. Waits for that. Raises NotNow."""
        with self._lock:
            item = self._assignments.get(view.assignment)
            work = item.work if item is not None and item.epoch == view.epoch else None
            computer = work.desktop(view.computer) if work is not None else None
        if work is None or computer is None:
            raise NotNow("The desktop has ended.")
        return computer, work.hand_over(view.by) if view.drives else None

    def on_stale(self, assignment: str, epoch: int | None) -> None:
        """The console has moved on from this lease: end the work, hold it no longer."""
        with self._lock:
            item = self._assignments.get(assignment)
            if item is None or (epoch is not None and item.epoch > epoch):
                return
            item.end("the console has taken the lease back")
            if item.done.is_set():
                del self._assignments[assignment]
        self.on_change()

    def on_blob_refused(self, assignment: str, epoch: int, detail: str) -> None:
        log.error("assignment %s: %s", assignment, detail)
        with self._lock:
            item = self._assignments.get(assignment)
            if item is not None and item.epoch == epoch:
                item.end(detail, "upload_failed")

    # ── what the console is told ──────────────────────────────────────────────────────────────────────────

    def hello(self) -> messages.Hello:
        facts = self._facts
        cannot_fork = facts.cannot_fork_because if not facts.can_fork else self._states.too_small()
        return messages.Hello(
            version=VERSION,
            instance=self._spool.instance,
            name=self._config.name,
            engine=facts.name,
            engine_version=facts.version[:50],  # an engine's own words may be longer than the protocol takes
            isolation=facts.isolation[:500],
            can_fork=facts.can_fork and not cannot_fork,
            cannot_fork_because=cannot_fork[:500],
            slots=self.slots,
            cpus=facts.cpus,
            memory_mb=facts.memory_mb,
            images=self._images,
            held=self.held(),
        )

    def heartbeat(self) -> messages.Heartbeat:
        swept = self._swept
        return messages.Heartbeat(
            held=self.held(),
            images=self._images,
            swept_at=swept.at if swept else None,
            swept_left=len(swept.left) if swept else 0,
            disk_free_mb=shutil.disk_usage(self._config.home).free >> 20,
            leaving=self._closing.is_set(),
            states=self._states.held(),
            states_limit_mb=self._states.limit_mb,
            ready=len(self._ready),
        )

    def held(self) -> list[messages.Held]:
        """Everything open, and everything whose last record the console has not acknowledged yet."""
        with self._lock:
            unacknowledged = {(item.assignment, item.epoch) for item in self._spool.taken()}
            for item in list(self._assignments.values()):
                if item.done.is_set() and (item.id, item.epoch) not in unacknowledged:
                    del self._assignments[item.id]
            return [
                messages.Held(assignment=item.id, epoch=item.epoch, paid_until=item.paid_until)
                for item in self._assignments.values()
            ]

    def _recorder(self, assignment: str, epoch: int) -> Recorder:
        return Recorder(self._spool, self._blobs, assignment=assignment, epoch=epoch)

    def _busy(self) -> int:
        return sum(not item.done.is_set() for item in self._assignments.values())

    def _free_slots(self) -> int:
        with self._lock:
            return self.slots - self._busy()

    # ── work ──────────────────────────────────────────────────────────────────────────────────────────────

    def _work(self, item: Assignment, build: Build, offer: messages.Offer, before: Assignment | None) -> None:
        """One assignment's thread: wait for the lease before it to let go, then work to the last record."""
        try:
            if before is not None:
                before.done.wait()
            recorder = self._recorder(item.id, item.epoch)
            try:
                work = build(offer.payload, recorder, item.paid_until, self._giving_up)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"])
                detail = f"this worker cannot read the assignment: {where}: {first['msg']}"
                log.error("assignment %s: %s", item.id, detail)
                recorder.record(ended(offer.kind, detail, "worker_fault"))
                return
            self._asked_for.add(work.image)
            self._wanted.set()
            with self._lock:
                item.work = work
                work.extend(item.paid_until)
                if item.ending is not None:
                    work.end(*item.ending)
            work.run()
        except Exception:
            log.exception("assignment %s broke", item.id)
        finally:
            item.work = None  # a sweep need not spare its desktop any longer
            self._close_open_end(item)
            item.done.set()
            self.on_change()
            with self._lock:
                if not self._busy():
                    self._idle.set()

    def _close_open_end(self, item: Assignment) -> None:
        """Work that broke without its last record must not be held for ever: remove its desktop, then say so."""
        if self._giving_up.is_set():
            return  # the next start does it
        for taken in self._spool.taken():
            if (taken.assignment, taken.epoch, taken.ended) == (item.id, item.epoch, None):
                try:
                    self._sweep()
                    detail = "this worker broke while it was running"
                    self._end_left(taken, datetime.now(UTC), detail, "worker_fault")
                except Exception:  # whatever it is, the slot must come free again
                    log.exception("assignment %s stays open until the worker is started again", item.id)

    def _recover(self) -> None:
        """End what an earlier process of this worker left open. Its desktops were swept away just before."""
        now = datetime.now(UTC)
        for taken in self._spool.taken():
            item = Assignment(taken.assignment, taken.epoch, taken.paid_until)
            item.done.set()
            newer = self._assignments.get(item.id)
            if newer is None or newer.epoch < item.epoch:
                self._assignments[item.id] = item
            if taken.ended is None:
                detail = "the worker was started again while this was running"
                log.warning("assignment %s: %s", taken.assignment, detail)
                self._end_left(taken, now, detail, "worker_stopped")

    def _end_left(self, taken: Taken, now: datetime, detail: str, reason: InvalidReason) -> None:
        recorder = self._recorder(taken.assignment, taken.epoch)
        swept = set(self._swept.removed) - set(self._swept.unstarted) if self._swept else set()
        for computer, since in self._spool.intended(taken.assignment, taken.epoch):
            if computer in swept:  # it was made, and there was no time to say so
                recorder.record(ComputerStarted(at=since, computer=computer, engine=self._facts.name))
        for computer in self._spool.computers(taken.assignment, taken.epoch):
            # Its watchdog has ended it by then, or its guardian before, whenever it was that this worker came back.
            gone = min(now, taken.paid_until, self._swept.ended.get(computer, now) if self._swept else now)
            recorder.record(ComputerStopped(at=gone, computer=computer, reason=reason))
        recorder.record(ended(taken.kind, detail, reason))

    # ── keepers ───────────────────────────────────────────────────────────────────────────────────────────

    def _watch_money(self) -> None:
        """End every assignment whose money is about to be used up, with or without a console."""
        while not self._closing.is_set():
            self._deadlines.clear()
            now = datetime.now(UTC)
            waits = [3600.0]
            with self._lock:
                for item in self._assignments.values():
                    if item.done.is_set() or item.ending is not None:
                        continue
                    left = (item.paid_until - STOP_EARLY - now).total_seconds()
                    if left <= 0:
                        item.end(f"paid until {item.paid_until.isoformat()}", "paid_until_reached")
                    else:
                        waits.append(left)
            self._deadlines.wait(min(waits))

    def _reap(self) -> None:
        """Each minute, and as soon as the last work has ended: a run's receipt waits for that."""
        last = time.monotonic()
        while True:
            idle = self._idle.wait(IMAGES_SECONDS)
            self._idle.clear()
            if self._closing.is_set():
                return
            try:
                self._look_at_images()
                if idle or time.monotonic() - last >= SWEEP_SECONDS:
                    last = time.monotonic()
                    self._sweep()
            except EngineError as error:
                log.warning("the engine does not answer the reaper: %s", error)
            except Exception:
                log.exception("the reaper broke; it looks again")

    def _keep_warm(self) -> None:
        """One saved desktop of each image that has been asked for and is still here, and some that stand ready."""
        assert self._warmer is not None
        while not self._closing.is_set():
            present = {image.digest for image in self._images}
            try:
                self._states.forget_all_but(present)
                self._warmer.keep_up(present & self._asked_for)
                self._ready.keep_up(present)
            except EngineError as error:
                log.warning("the engine does not answer the warmer: %s", error)
            self._wanted.wait(IMAGES_SECONDS)
            self._wanted.clear()

    def __contains__(self, computer: object) -> bool:
        """Whether that desktop is, or is about to be, somebody's here."""
        if computer in self._ready:  # first: one that is handed out is there until somebody has it
            return True
        with self._lock:
            works = [item.work for item in self._assignments.values() if not item.done.is_set()]
        warming = self._warmer is not None and computer in self._warmer.computers
        return warming or any(work is not None and computer in work.computers for work in works)

    def _sweep(self, keep: Container[str] | None = None) -> None:
        """What is in `keep` stays: if nothing is said, whatever is somebody's."""
        self._swept = self._engine.sweep(self if keep is None else keep)
        for removed in self._swept.removed:
            log.warning("desktop %s belonged to nobody and was removed", removed)
        for problem in self._swept.problems:
            log.warning("sweep: %s", problem)

    def _look_at_images(self) -> None:
        self._images = [
            messages.WorkerImage(name=image.name, version=image.version, digest=image.digest)
            for image in self._engine.images()
        ]
