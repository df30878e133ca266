"""Plays one attempt wholly by itself: a desktop, the task's setup, the policy's actions, the verdict."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from desktops.protocol import attempt as records
from desktops.protocol.actions import Action, Done, Fail

from .attest import compare
from .computer import Computer
from .faults import Ending, Fault, ForkMismatch, Phase
from .guest_client import Guest
from .hold import Hold, NotNow
from .policies.base import Observation, Policy
from .policies.recipe import RecipePolicy
from .session import Session, now
from .task import Task, parse

# Before that there is no desktop to take over, and after it nothing may be in the checker's way.
TAKEABLE = (Phase.SETUP, Phase.GATES, Phase.COMPARING, Phase.PLAYING)


class AttemptRun(Session):
    """One try of one attempt.

    1. A desktop with the task's setup, the gates checked and the screen recorded that the policy starts from; or,
       for a fork, one from the saved desktop of its prefix, compared with that.
    2. Ask the policy, act, wait for the screen, record the step; until done, fail or the last step.
    3. Postconfig and check; record the verdict, but for less than full reward on a machine that could not keep up.
    """

    def __init__(self, order: records.AttemptOrder, **surroundings: Any) -> None:
        super().__init__(order, **surroundings)
        self._order = order
        self._steps = 0
        self._last_action: Action | None = None
        self._verdict = False
        self._hold: Hold | None = None

    def __str__(self) -> str:
        return f"attempt {self._order.attempt_id}"

    def _play(self, folder: Path) -> None:
        task = parse(self._order.task)
        fork = self._order.fork
        computer, seen = self._fork(fork, task, folder) if fork else self._begin(task, folder)
        guest = computer.guest
        self._phase = Phase.PLAYING
        if not isinstance(self._last_action, Done | Fail):
            self._act(task, guest, RecipePolicy(self._order.recipe), seen)
        self._begin_verifying()
        self._verify(task, guest, folder)

    def _fork(self, fork: records.Fork, task: Task, folder: Path) -> tuple[Computer, Observation]:
        """A desktop on which setup and prefix have been played. Raises ForkMismatch when it is not like its parent."""
        with self._states.using(fork.state):
            self._states.lay_out(fork.state, folder)
            screen = self._states.screen(fork.state)
            computer = self._start(fork.state)
        self._phase = Phase.COMPARING
        began = time.monotonic()
        likeness = compare(computer.guest, fork.parent, screen)
        self._recorder.record(
            records.Forked(
                at=now(),
                computer=computer.id,
                state=fork.state,
                differences=likeness.differences,
                seconds=time.monotonic() - began,
            )
        )
        if likeness.differences:
            raise ForkMismatch(f"the copy is not like its parent: {'; '.join(likeness.differences)}")
        for number, action in enumerate(self._order.recipe[: self._order.prefix_steps], 1):
            self._steps, self._last_action = number, action
            if isinstance(action, Done | Fail):
                break
        window = computer.guest.active_window()
        return computer, Observation(
            self._steps + 1, likeness.screenshot, window.title if window else "", task.instruction
        )

    def hand_over(self, by: str) -> Hold:
        """Not while the checker reads the desktop: nobody may be in its way, and the attempt keeps its verdict."""
        with self._lock:
            if self._hold is not None:
                raise NotNow(f"{self._hold.by} has taken this desktop over already.")
            if self._ending is not None or self._phase not in TAKEABLE:
                raise NotNow("The attempt is just ending; it keeps the verdict that it gets.")
            hold = self._hold = Hold(by)
            self._ending = Ending(f"{by} took the desktop over", "human_intervened")
        hold.wait_until_theirs()
        return hold

    def end(self, detail: str, reason: records.InvalidReason | None = None) -> None:
        super().end(detail, reason)
        if self._hold is not None:
            self._hold.leave()

    def _stop_computer(self, reason: str) -> str:
        """Not before whoever took it over has left."""
        if (hold := self._hold) is not None:
            try:
                self._insist(records.TakenOver(at=now(), by=hold.by))
            except Exception:
                hold.leave()
                raise
            finally:
                hold.begin()
        return super()._stop_computer(reason)

    def _begin_verifying(self) -> None:
        with self._lock:
            if self._ending is not None:
                raise self._ending
            self._phase = Phase.VERIFYING
        self._recorder.record(records.Verifying(at=now()))

    def _act(self, task: Task, guest: Guest, policy: Policy, seen: Observation) -> None:
        while seen.step <= self._order.max_steps:
            began = time.monotonic()
            action = policy.decide(seen)
            if action is None:
                return
            policy_ms = (time.monotonic() - began) * 1000
            prefix = seen.step <= self._order.prefix_steps
            look = self._step(guest, action, seen.step, prefix=prefix, policy_ms=policy_ms)
            self._steps, self._last_action = seen.step, action
            if isinstance(action, Done | Fail):
                return
            seen = Observation(seen.step + 1, look.png, look.active_window, task.instruction)

    def _verify(self, task: Task, guest: Guest, folder: Path) -> None:
        from .checkers import evaluate
        from .setup import play

        began = time.monotonic()
        notes = play(task.evaluator.postconfig, guest, folder, lenient=True)
        screenshot = guest.screenshot()  # what is judged; after the judgement nothing may be in its way
        judgement = evaluate(task, guest, self._last_action, folder)
        if judgement.reward < 1:
            self._check_hurry()
        seconds = time.monotonic() - began
        evidence = judgement.evidence
        if notes and evidence:
            told = "; ".join([evidence[0].note, *(f"postconfig {note}" for note in notes)]).strip("; ")
            evidence = [evidence[0].model_copy(update={"note": told}), *evidence[1:]]
        for path in judgement.files.values():
            self._recorder.keep(path.read_bytes())
        self._recorder.record(
            records.Verdict(
                at=now(),
                reward=judgement.reward,
                evidence=evidence,
                checker=judgement.checker,
                checker_digest=judgement.checker_digest,
                seconds=seconds,
                screenshot=self._recorder.keep(screenshot),
            )
        )
        self._verdict = True

    def _last_record(self, fault: Fault | None, *, detail: str, stopped: bool) -> records.AttemptEnded:
        return records.AttemptEnded(
            at=now(),
            # A verdict that was reached stays, whatever broke after it.
            ok=self._verdict,
            invalid_reasons=[fault.reason] if fault and fault.reason and not self._verdict else [],
            checker_error=fault.checker_error if fault and not self._verdict else "",
            detail=detail,
            steps=self._steps,
            stopped=stopped,
        )
