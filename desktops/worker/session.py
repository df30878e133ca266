"""One order's desktop: started, set up, acted on, and whatever happens seen gone, with money and ending its own."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from desktops.protocol import attempt as records
from desktops.protocol import messages
from desktops.protocol.actions import Action, Done, Fail
from desktops.protocol.hold import Answered, HoldOrder

from .computer import Computer, StartFailed
from .endings import LastRecord
from .engine.base import DeskSpec, Engine, EngineError, NoFreeSlot, SavedState
from .faults import Ending, Fault, NotReady, Phase, classify
from .guest_client import Guest, GuestError, GuestRefused, GuestWaitedInVain, Look, Settled
from .hold import Hold, NotNow
from .policies.base import Observation
from .ready import Ready
from .recorder import Recorder
from .setups import PATIENCE_SECONDS, worth_waiting_for
from .spool import SpoolFull
from .states import States
from .task import Task

log = logging.getLogger(__name__)

# A screen that has not changed for this long has answered: apps redraw within a few frames of an
# event, and a blinking text cursor (every 500 ms or so) must not keep it from coming to rest.
SETTLE_QUIET_MS = 120
# What never rests (a video, a spinner) must not hold the attempt up; the step then says `settled: false`.
SETTLE_CAP_MS = 3000
# A guest waits longer than it is asked to only while more programs want a processor than there are.
OVERLOADED_MS = 1.5 * SETTLE_CAP_MS
# Between two tries to get rid of a desktop or to write an ending: both have to succeed some time.
INSIST_SECONDS = 1.0


class _LeftForNextStart(Exception):
    """The process ends before an ending could be written: the next start sweeps and writes it."""


class Session(ABC):
    """`run` in a thread of its own; `end` and `extend` from any other.

    1. Start a desktop; `computer_started` as soon as it exists, `computer_ready` when it answers.
    2. `_play`: what the order asks for.
    3. Whatever happened: remove the desktop, record that it is gone, and last `_last_record`, once.
    """

    def __init__(
        self,
        order: records.AttemptOrder | records.PrefixOrder | HoldOrder,
        *,
        engine: Engine,
        engine_name: str,
        states: States,
        ready: Ready | None = None,
        recorder: Recorder,
        paid_until: datetime,
        closing: threading.Event | None = None,
        scratch: Path | None = None,
    ) -> None:
        self._template = order.template
        self._setup_state = "" if isinstance(order, HoldOrder) else order.setup_state
        self._engine, self._engine_name = engine, engine_name
        self._states, self._recorder = states, recorder
        self._standing_ready = ready
        self._paid_until = paid_until
        self._scratch = scratch  # None: the machine's own temporary folder
        self._closing = closing or threading.Event()  # set: the process ends, nothing may insist any longer
        self._computer: Computer | None = None
        self._computer_id = str(uuid.uuid4())
        self._unrecorded: records.ComputerStarted | None = None  # exists, and the spool does not know yet
        self._lock = threading.Lock()
        self._ending: Ending | None = None
        self._go_on = threading.Event()  # there is nothing to wait for before a desktop is started
        self._phase = Phase.STARTING
        self._restless_setup = False
        self._hurried = ""  # after what it went on though an overloaded machine was still drawing

    @abstractmethod
    def _play(self, folder: Path) -> None:
        """The order, from the start of its desktop; `folder` is there as long as this runs."""

    @abstractmethod
    def _last_record(self, fault: Fault | None, *, detail: str, stopped: bool) -> LastRecord: ...

    # ── from other threads ────────────────────────────────────────────────────────────────────────────────

    @property
    def computers(self) -> set[str]:
        """Desktops that are, or are about to be, this order's: a sweep must leave them alone."""
        return {self._computer_id}

    @property
    def image(self) -> str:
        """Digest of what its desktop is made from."""
        return self._template.digest

    def ask(self, ask: messages.Ask) -> None:
        """Something to do with the desktop, besides the order."""
        log.warning("%s is asked %s, which is for computers that somebody has opened", self, ask.do.what)

    def desktop(self, computer: str) -> Computer | None:
        """Its live desktop, if it is that one."""
        with self._lock:
            return self._computer if computer == self._computer_id else None

    def hand_over(self, by: str) -> Hold:
        """A person acts on the desktop from now on. Waits until nothing else does. Raises NotNow."""
        raise NotNow("What plays on this desktop is not for one attempt alone, so nobody can take it over.")

    def end(self, detail: str, reason: records.InvalidReason | None = None) -> None:
        """End soon: the desktop goes now, which breaks off whatever is being asked of it. Does not block."""
        with self._lock:
            if self._ending is None:
                self._ending = Ending(detail, reason)
            computer = self._computer
        self._go_on.set()
        if computer is not None:
            threading.Thread(target=_break_off, args=(computer,), name="break-off", daemon=True).start()

    def extend(self, paid_until: datetime) -> None:
        """The desktop may exist until then. A thread tells its own watchdog: the guest may be slow."""
        with self._lock:
            self._paid_until = paid_until
            computer = self._computer
        if computer is not None:
            threading.Thread(target=_tell_paid_until, args=(computer, paid_until), daemon=True).start()

    # ── from start to end ─────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        """Play to the end. Raises nothing but what the process itself cannot go on with."""
        fault: Fault | None = None
        try:
            with tempfile.TemporaryDirectory(
                prefix="deskyard-attempt-", dir=self._scratch, ignore_cleanup_errors=True
            ) as folder:
                self._play(Path(folder))
        except Exception as error:  # noqa: BLE001 (the classifier names every one of them)
            fault = self._classify(error)
        self._phase = Phase.STOPPING
        reason = "finished" if fault is None else fault.reason or "stopped"
        try:
            problem = self._stop_computer(reason)
            detail = "; ".join(part for part in (fault.detail if fault else "", problem) if part)
            with self._lock:
                stopped = self._ending is not None and self._ending.reason is None
            self._insist(self._last_record(fault, detail=detail[:4000], stopped=stopped))
        except _LeftForNextStart as left:
            log.error("%s is left open: %s", self, left)

    def _start(self, state: str = "") -> Computer:
        """A ready desktop, from the saved one of that name if one is given. Raises StartFailed."""
        self._check_ending()
        with self._one_that_is_ready(state) as ready:
            computer = ready or self._new(state)
            self._computer_id = computer.id
            self._recorder.intend(computer.id, now())
            started = ready.hand_over(self._paid_until) if ready else computer.create()
            with self._lock:
                self._computer = computer
        self._unrecorded = records.ComputerStarted(
            at=started,
            computer=computer.id,
            engine=self._engine_name,
            engine_ref=computer.ref,
            image_id=computer.image_id,
            from_state=computer.started_from,
        )
        self._recorder.record(self._unrecorded)
        self._unrecorded = None
        self._check_ending()  # asked for while there was nothing to break off
        _load_libraries()
        seconds = computer.wait_ready()
        if self._paid_until != computer.spec.paid_until:
            computer.set_paid_until(self._paid_until)
        self._recorder.record(records.ComputerReady(at=now(), computer=computer.id, seconds=seconds))
        return computer

    def _one_that_is_ready(self, state: str) -> contextlib.AbstractContextManager[Computer | None]:
        """Nobody has acted on one that stands ready: from a saved desktop that is named none is made before."""
        if state or self._standing_ready is None:
            return contextlib.nullcontext()
        return self._standing_ready.take(self._template)

    def _new(self, state: str) -> Computer:
        template = self._template
        spec = DeskSpec(
            computer=self._computer_id,
            image=template.digest,
            egress=template.egress,
            memory_mb=template.memory_mb,
            cpus=template.cpus,
            paid_until=self._paid_until,
            state=state,
        )
        return Computer(self._engine, spec)

    def _begin(self, task: Task, folder: Path) -> tuple[Computer, Observation]:
        """A desktop with the task's setup: from the saved one that had it, or set up now and then saved as that."""
        name = self._setup_state
        if not name:
            computer = self._start()
            return computer, self._set_up(task, computer.guest, folder)
        with self._in_turn(name, task):
            set_up = self._start_set_up(name, folder)
            if set_up is None:
                computer = self._start()
                seen = self._set_up(task, computer.guest, folder)
                self._save_set_up(computer, name, folder)
                return computer, seen
        return set_up, self._set_up(task, set_up.guest, folder, name)

    @contextlib.contextmanager
    def _in_turn(self, name: str, task: Task) -> Iterator[None]:
        """Not while another order here is about to save what this one can start from. The first one is that other."""
        setups, worth = self._states.setups, worth_waiting_for(task.setup)
        if not worth or self._is_saved(name):
            yield
        elif setups.begin(name, self._go_on):
            try:
                yield
            finally:
                setups.end(name, in_vain=self._ending is None and not self._is_saved(name))
        else:
            if not self._go_on.is_set():
                self._recorder.record(records.SetupAwaited(at=now()))
            if not self._go_on.wait(PATIENCE_SECONDS):
                log.info("%s has waited long enough for another's setup, and sets up for itself", self)
            self._check_ending()
            yield

    def _is_saved(self, name: str) -> bool:
        try:
            return self._states.has(name)
        except EngineError as error:  # whoever starts from it finds out, and sets up for itself
            log.info("%s cannot see what is saved: %s", self, error)
            return False

    def _start_set_up(self, name: str, folder: Path) -> Computer | None:
        """Started from the saved desktop of that name; None, with nothing started, where that cannot be."""
        with self._states.using(name):
            try:
                if not self._states.has(name):
                    return None
                self._states.lay_out(name, folder)
                return self._start(name)
            except (StartFailed, EngineError) as error:
                if self._computer is not None or isinstance(error.__cause__, NoFreeSlot):
                    raise
                log.warning("%s is set up anew: %s", self, error)
        self._states.forget_now(name)
        return None

    def _save_set_up(self, computer: Computer, name: str, folder: Path) -> None:
        """For the next that asks for it. This one goes on, saved or not."""
        self._check_ending()
        began = time.monotonic()
        try:
            saved = self._states.save(computer, name, resume=True, files=folder)
        except EngineError as error:
            log.info("%s goes on, and what was set up is not saved: %s", self, error)
        else:
            self._record_saved(computer, saved, began)

    def _record_saved(
        self,
        computer: Computer,
        saved: SavedState,
        began: float,
        attestation: records.Attestation | None = None,
    ) -> None:
        self._recorder.record(
            records.StateSaved(
                at=now(),
                computer=computer.id,
                name=saved.name,
                digest=saved.digest,
                size_bytes=saved.size_bytes,
                seconds=time.monotonic() - began,
                parent=computer.started_from,
                attestation=attestation,
            )
        )

    def _set_up(self, task: Task, guest: Guest, folder: Path, from_state: str = "") -> Observation:
        """The task's setup, unless the desktop comes from a saved one that had it; the gates are checked anyhow."""
        from .setup import play

        self._phase = Phase.SETUP
        began = time.monotonic()
        steps = [] if from_state else task.setup
        play(steps, guest, folder)
        self._phase = Phase.GATES
        rest = guest.settle(quiet_ms=SETTLE_QUIET_MS, timeout_ms=SETTLE_CAP_MS)
        self._restless_setup = _hurries(rest)
        readiness = guest.ready()
        if not readiness.complete:
            raise NotReady(f"after setup the desktop is not ready: {readiness.detail}")
        screenshot, window = guest.screenshot(), guest.active_window()
        self._recorder.record(
            records.SetupDone(
                at=now(),
                seconds=time.monotonic() - began,
                steps=len(steps),
                screenshot=self._recorder.keep(screenshot),
                from_state=from_state,
            )
        )
        return Observation(1, screenshot, window.title if window else "", task.instruction)

    def _step(
        self, guest: Guest, action: Action, number: int, *, prefix: bool, policy_ms: float = 0.0
    ) -> Look:
        """One action and its record. An action the guest turns down is a step with an error, not a fault.

        Raises NotReady after a wait in vain: what a recipe would type next would go to whatever is there instead.
        """
        self._check_ending()
        began, error, in_vain = time.monotonic(), "", False
        try:
            look = guest.act(action, settle_ms=SETTLE_QUIET_MS, timeout_ms=SETTLE_CAP_MS)
        except GuestRefused as refusal:
            error = str(refusal)[:4000]
            in_vain = isinstance(refusal, GuestWaitedInVain) and not getattr(action, "optional", False)
            act_ms = (time.monotonic() - began) * 1000
            window = guest.active_window()
            look = Look(guest.screenshot(), act_ms, 0.0, 0.0, True, window.title if window else "")
        self._recorder.record(
            records.StepTaken(
                at=now(),
                number=number,
                action=action,
                prefix=prefix,
                policy_ms=policy_ms,
                act_ms=look.act_ms,
                settle_ms=look.settle_ms,
                grab_ms=look.grab_ms,
                settled=look.settled,
                screenshot=self._recorder.keep(look.png),
                active_window=look.active_window,
                error=error,
            )
        )
        if in_vain:
            raise NotReady(f"step {number}: {error}")
        if not self._hurried and not isinstance(
            action, Done | Fail
        ):  # who only says that it is over hurries nothing
            after_setup = "the setup" if self._restless_setup else ""
            self._hurried = after_setup or (f"step {number}" if _hurries(look) else "")
        return look

    def _check_hurry(self) -> None:
        """Raises NotReady where nobody can say whether what was typed or clicked found what it was meant for."""
        if self._hurried:
            raise NotReady(
                f"its machine had too much to do: after {self._hurried} the screen did not come to rest"
            )

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────

    def _classify(self, error: Exception) -> Fault:
        alive: bool | None = None
        computer = self._computer
        with self._lock:
            ending = self._ending
        if computer is not None and ending is None and not isinstance(error, Ending):
            alive = computer.stopped_at is None and computer.lost() != "desktop_lost"
        fault = classify(error, phase=self._phase, desktop_alive=alive, ending=ending)
        if fault.reason == "worker_fault":
            log.exception("%s broke", self, exc_info=error)
        elif fault.reason:
            log.warning("%s: %s: %s", self, fault.reason, fault.detail)
        return fault

    def _stop_computer(self, reason: str) -> str:
        """Remove the desktop, again and again until it is seen gone; gives what was in the way."""
        computer, problem = self._computer, ""
        if computer is None:
            return problem
        while True:
            try:
                gone = computer.stop()
            except EngineError as error:
                if problem != str(error):
                    log.error("desktop %s cannot be removed, trying again: %s", computer.id, error)
                problem = str(error)
                if self._closing.wait(INSIST_SECONDS):
                    raise _LeftForNextStart(problem) from error
            else:
                if self._unrecorded is not None:
                    self._insist(self._unrecorded)
                # A worker that stood still sees it late: its watchdog had ended it by then, or its guardian before.
                at = min(gone, self._paid_until)
                self._insist(records.ComputerStopped(at=at, computer=computer.id, reason=reason))
                return problem

    def _insist(
        self,
        record: records.ComputerStarted | records.ComputerStopped | records.TakenOver | Answered | LastRecord,
    ) -> None:
        """Write what money and leases hang on, waiting for room on a full disk."""
        while True:
            try:
                self._recorder.record(record)
            except SpoolFull as error:
                log.error("%s; the end of %s waits for room", error, self)
                if self._closing.wait(INSIST_SECONDS):
                    raise _LeftForNextStart(str(error)) from error
            else:
                return

    def _check_ending(self) -> None:
        with self._lock:
            if self._ending is not None:
                raise self._ending


def now() -> datetime:
    return datetime.now(UTC)


def _break_off(computer: Computer) -> None:
    try:
        computer.stop()
    except EngineError as error:
        log.warning("desktop %s: %s; its order tries again", computer.id, error)


def _load_libraries() -> None:
    """Setup steps and checkers bring document libraries: an idle worker does without their memory, and a worker's
    first attempt loads them while its desktop starts, which nobody waits for."""
    from . import checkers, setup  # noqa: F401


def _hurries(rest: Look | Settled) -> bool:
    """Whether to go on from there is to go on too early."""
    return not rest.settled and rest.settle_ms > OVERLOADED_MS


def _tell_paid_until(computer: Computer, paid_until: datetime) -> None:
    try:
        computer.set_paid_until(paid_until)
    except GuestError as error:
        # The worker's own clock stops the desktop as well; whoever plays on it finds out if it is lost.
        log.info("desktop %s was not told that it is paid until %s: %s", computer.id, paid_until, error)
