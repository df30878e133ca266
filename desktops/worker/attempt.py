"""Plays one attempt wholly by itself: a desktop, the task's setup, the policy's actions, the verdict."""

from __future__ import annotations

import logging
import tempfile
import threading
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path

from desktops.protocol import attempt as records
from desktops.protocol.actions import Action, Done, Fail

from .computer import Computer
from .engine.base import DeskSpec, Engine, EngineError
from .faults import Ending, Fault, NotReady, Phase, classify
from .guest_client import Guest, GuestError, GuestRefused, Look
from .policies.base import Observation, Policy
from .policies.recipe import RecipePolicy
from .recorder import Recorder
from .spool import SpoolFull
from .task import Task, parse

log = logging.getLogger(__name__)

# A screen that has not changed for this long has answered: apps redraw within a few frames of an
# event, and a blinking text cursor (every 500 ms or so) must not keep it from coming to rest.
SETTLE_QUIET_MS = 120
# What never rests (a video, a spinner) must not hold the attempt up; the step then says `settled: false`.
SETTLE_CAP_MS = 3000
# Between two tries to get rid of a desktop or to write an ending: both have to succeed some time.
INSIST_SECONDS = 1.0


class _LeftForNextStart(Exception):
    """The process ends before an ending could be written: the next start sweeps and writes it."""


class AttemptRun:
    """One try of one attempt. `run` in a thread of its own; `end` and `extend` from any other.

    1. Start a desktop; `computer_started` as soon as it exists, `computer_ready` when it answers.
    2. Play the task's setup, check the gates, record the screen the policy starts from.
    3. Ask the policy, act, wait for the screen, record the step; until done, fail or the last step.
    4. Postconfig and check; record the verdict.
    5. Whatever happened: remove the desktop, record that it is gone, and last `attempt_ended`, once.
    """

    def __init__(
        self,
        order: records.AttemptOrder,
        *,
        engine: Engine,
        engine_name: str,
        recorder: Recorder,
        paid_until: datetime,
        closing: threading.Event | None = None,
        scratch: Path | None = None,
    ) -> None:
        self._order = order
        self._engine, self._engine_name, self._recorder = engine, engine_name, recorder
        self._paid_until = paid_until
        self._scratch = scratch  # None: the machine's own temporary folder
        self._closing = closing or threading.Event()  # set: the process ends, nothing may insist any longer
        self._computer: Computer | None = None
        self._computer_id = str(uuid.uuid4())
        self._unrecorded: records.ComputerStarted | None = None  # exists, and the spool does not know yet
        self._lock = threading.Lock()
        self._ending: Ending | None = None
        self._phase = Phase.STARTING
        self._steps = 0
        self._last_action: Action | None = None
        self._verdict = False

    # ── from other threads ────────────────────────────────────────────────────────────────────────────────

    @property
    def computers(self) -> set[str]:
        """Desktops that are, or are about to be, this attempt's: a sweep must leave them alone."""
        return {self._computer_id}

    @property
    def image(self) -> str:
        """Digest of what its desktop is made from."""
        return self._order.template.digest

    def end(self, detail: str, reason: records.InvalidReason | None = None) -> None:
        """End soon: the desktop goes now, which breaks off whatever is being asked of it. Does not block."""
        with self._lock:
            if self._ending is None:
                self._ending = Ending(detail, reason)
            computer = self._computer
        if computer is not None:
            threading.Thread(target=self._break_off, args=(computer,), name="break-off", daemon=True).start()

    def extend(self, paid_until: datetime) -> None:
        """The desktop may exist until then. A thread tells its own watchdog: the guest may be slow."""
        with self._lock:
            self._paid_until = paid_until
            computer = self._computer
        if computer is not None:
            threading.Thread(target=_tell_paid_until, args=(computer, paid_until), daemon=True).start()

    # ── the attempt ───────────────────────────────────────────────────────────────────────────────────────

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
            stop_problem = self._stop_computer(reason)
            self._insist(self._end_record(fault, stop_problem))
        except _LeftForNextStart as left:
            log.error("attempt %s is left open: %s", self._order.attempt_id, left)

    def _play(self, folder: Path) -> None:
        task = parse(self._order.task)
        guest = self._start()
        self._phase = Phase.SETUP
        screen = self._set_up(task, guest, folder)
        self._phase = Phase.PLAYING
        self._act(task, guest, RecipePolicy(self._order.recipe), screen)
        self._phase = Phase.VERIFYING
        self._recorder.record(records.Verifying(at=_now()))
        self._verify(task, guest, folder)

    def _start(self) -> Guest:
        template = self._order.template
        computer = Computer(
            self._engine,
            DeskSpec(
                computer=self._computer_id,
                image=template.digest,
                egress=template.egress,
                memory_mb=template.memory_mb,
                cpus=template.cpus,
                paid_until=self._paid_until,
            ),
        )
        self._check_ending()
        self._recorder.intend(computer.id, _now())
        started = computer.create()
        with self._lock:
            self._computer = computer
        self._unrecorded = records.ComputerStarted(
            at=started,
            computer=computer.id,
            engine=self._engine_name,
            engine_ref=computer.ref,
            image_id=computer.image_id,
        )
        self._recorder.record(self._unrecorded)
        self._unrecorded = None
        self._check_ending()  # asked for while there was nothing to break off
        _load_libraries()
        seconds = computer.wait_ready()
        if self._paid_until != computer.spec.paid_until:
            computer.set_paid_until(self._paid_until)
        self._recorder.record(records.ComputerReady(at=_now(), computer=computer.id, seconds=seconds))
        return computer.guest

    def _set_up(self, task: Task, guest: Guest, folder: Path) -> Observation:
        from .setup import play

        began = time.monotonic()
        play(task.setup, guest, folder)
        self._phase = Phase.GATES
        guest.settle(quiet_ms=SETTLE_QUIET_MS, timeout_ms=SETTLE_CAP_MS)
        readiness = guest.ready()
        if not readiness.complete:
            raise NotReady(f"after setup the desktop is not ready: {readiness.detail}")
        screenshot, window = guest.screenshot(), guest.active_window()
        self._recorder.record(
            records.SetupDone(
                at=_now(),
                seconds=time.monotonic() - began,
                steps=len(task.setup),
                screenshot=self._recorder.keep(screenshot),
            )
        )
        return Observation(1, screenshot, window.title if window else "", task.instruction)

    def _act(self, task: Task, guest: Guest, policy: Policy, seen: Observation) -> None:
        while seen.step <= self._order.max_steps:
            self._check_ending()
            began = time.monotonic()
            action = policy.decide(seen)
            if action is None:
                return
            policy_ms = (time.monotonic() - began) * 1000
            look = self._step(guest, action, seen.step, policy_ms)
            if isinstance(action, Done | Fail):
                return
            seen = Observation(seen.step + 1, look.png, look.active_window, task.instruction)

    def _step(self, guest: Guest, action: Action, number: int, policy_ms: float) -> Look:
        """One action and its record. An action the guest turns down is a step with an error, not a fault."""
        began, error = time.monotonic(), ""
        try:
            look = guest.act(action, settle_ms=SETTLE_QUIET_MS, timeout_ms=SETTLE_CAP_MS)
        except GuestRefused as refusal:
            error = str(refusal)[:4000]
            act_ms = (time.monotonic() - began) * 1000
            window = guest.active_window()
            look = Look(guest.screenshot(), act_ms, 0.0, 0.0, True, window.title if window else "")
        self._recorder.record(
            records.StepTaken(
                at=_now(),
                number=number,
                action=action,
                prefix=number <= self._order.prefix_steps,
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
        self._steps, self._last_action = number, action
        return look

    def _verify(self, task: Task, guest: Guest, folder: Path) -> None:
        from .checkers import evaluate
        from .setup import play

        began = time.monotonic()
        notes = play(task.evaluator.postconfig, guest, folder, lenient=True)
        screenshot = guest.screenshot()  # what is judged; after the judgement nothing may be in its way
        judgement = evaluate(task, guest, self._last_action, folder)
        seconds = time.monotonic() - began
        evidence = judgement.evidence
        if notes and evidence:
            told = "; ".join([evidence[0].note, *(f"postconfig {note}" for note in notes)]).strip("; ")
            evidence = [evidence[0].model_copy(update={"note": told}), *evidence[1:]]
        for path in judgement.files.values():
            self._recorder.keep(path.read_bytes())
        self._recorder.record(
            records.Verdict(
                at=_now(),
                reward=judgement.reward,
                evidence=evidence,
                checker=judgement.checker,
                checker_digest=judgement.checker_digest,
                seconds=seconds,
                screenshot=self._recorder.keep(screenshot),
            )
        )
        self._verdict = True

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
            log.exception("attempt %s broke", self._order.attempt_id, exc_info=error)
        elif fault.reason:
            log.warning("attempt %s: %s: %s", self._order.attempt_id, fault.reason, fault.detail)
        return fault

    def _end_record(self, fault: Fault | None, stop_problem: str) -> records.AttemptEnded:
        with self._lock:
            stopped = self._ending is not None and self._ending.reason is None
        detail = "; ".join(part for part in (fault.detail if fault else "", stop_problem) if part)
        return records.AttemptEnded(
            at=_now(),
            # A verdict that was reached stays, whatever broke after it.
            ok=self._verdict,
            invalid_reasons=[fault.reason] if fault and fault.reason and not self._verdict else [],
            checker_error=fault.checker_error if fault and not self._verdict else "",
            detail=detail[:4000],
            steps=self._steps,
            stopped=stopped,
        )

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
                self._insist(records.ComputerStopped(at=gone, computer=computer.id, reason=reason))
                return problem

    def _insist(
        self, record: records.ComputerStarted | records.ComputerStopped | records.AttemptEnded
    ) -> None:
        """Write what money and leases hang on, waiting for room on a full disk."""
        while True:
            try:
                self._recorder.record(record)
            except SpoolFull as error:
                log.error("%s; the end of attempt %s waits for room", error, self._order.attempt_id)
                if self._closing.wait(INSIST_SECONDS):
                    raise _LeftForNextStart(str(error)) from error
            else:
                return

    def _check_ending(self) -> None:
        with self._lock:
            if self._ending is not None:
                raise self._ending

    def _break_off(self, computer: Computer) -> None:
        try:
            computer.stop()
        except EngineError as error:
            log.warning("desktop %s: %s; its attempt tries again", computer.id, error)


def _load_libraries() -> None:
    """Setup steps and checkers bring document libraries: an idle worker does without their memory, and a worker's
    first attempt loads them while its desktop starts, which nobody waits for."""
    from . import checkers, setup  # noqa: F401


def _tell_paid_until(computer: Computer, paid_until: datetime) -> None:
    try:
        computer.set_paid_until(paid_until)
    except GuestError as error:
        # The worker's own clock stops the desktop as well; whoever plays on it finds out if it is lost.
        log.info("desktop %s was not told that it is paid until %s: %s", computer.id, paid_until, error)


def _now() -> datetime:
    return datetime.now(UTC)
