"""A worker on paper: says to the console what a worker says, record by record, without a desktop."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from console.actions.tokens import issue_token
from console.actor import Actor
from console.models import User, Workspace
from desktops.actions import report
from desktops.models import Assignment, Worker
from desktops.protocol import messages
from tests.factories import sha256

SHOT = sha256("screen")


class PaperWorker:
    def __init__(
        self,
        workspace: Workspace,
        owner: User,
        *,
        name: str = "paper",
        slots: int = 2,
        can_fork: bool = False,
    ) -> None:
        self.token, _ = issue_token(
            workspace=workspace,
            user=owner,
            name=f"worker {name}",
            scopes=["workers:connect"],
            expires_in=None,
            actor=Actor.person(owner),
        )
        self.name, self.slots, self.can_fork, self.number = name, slots, can_fork, 0
        self.instance = str(uuid.uuid4())
        self.worker = self.connect()

    def connect(self, held: Sequence[Assignment] = ()) -> Worker:
        self.connection = uuid.uuid4()
        image = messages.WorkerImage(name="basic", version=1, digest=f"sha256:{sha256('basic@1')}")
        hello = messages.Hello(
            version="1",
            instance=self.instance,
            name=self.name,
            engine="fake",
            slots=self.slots,
            can_fork=self.can_fork,
            images=[image],
            held=[messages.Held(assignment=str(one.pk), epoch=one.epoch) for one in held],
        )
        return report.connect(token=self.token, hello=hello, connection=self.connection)

    def offered(self) -> list[Assignment]:
        return list(Assignment.objects.filter(worker=self.worker).live().order_by("offered_at"))

    def offered_of(self, kind: str) -> list[Assignment]:
        return [one for one in self.offered() if one.kind == kind]

    def beat(self) -> None:
        held = [messages.Held(assignment=str(a.pk), epoch=a.epoch) for a in self.offered()]
        report.heartbeat(worker=self.worker, connection=self.connection, beat=messages.Heartbeat(held=held))

    def say(
        self, assignment: Assignment, *records: dict[str, Any], epoch: int | None = None
    ) -> report.Applied:
        items = []
        for record in records:
            self.number += 1
            record.setdefault("at", timezone.now().isoformat())
            items.append(
                messages.SpoolItem(
                    number=self.number,
                    assignment=str(assignment.pk),
                    epoch=epoch or assignment.epoch,
                    record=record,
                )
            )
        return report.apply_report(
            worker=self.worker, connection=self.connection, report=messages.Report(items=items)
        )

    def start(self, assignment: Assignment, *, seconds_ago: float = 0, from_state: str = "") -> str:
        started = {"kind": "computer_started", "engine": "fake", "from_state": from_state}
        computer = str(uuid.uuid4())
        at = (timezone.now() - timedelta(seconds=seconds_ago)).isoformat()
        self.say(
            assignment,
            {**started, "computer": computer, "at": at},
            {"kind": "computer_ready", "computer": computer, "seconds": 0.4},
            {"kind": "setup_done", "seconds": 0.1, "steps": 0, "screenshot": SHOT},
        )
        return computer

    def step(self, assignment: Assignment, number: int = 1) -> None:
        click = {"action": "click", "x": 10, "y": 20}
        times = {"act_ms": 1, "settle_ms": 30, "grab_ms": 4, "settled": True}
        self.say(assignment, {"kind": "step", "number": number, "action": click, "screenshot": SHOT, **times})

    def verdict(self, assignment: Assignment, reward: float) -> None:
        self.say(
            assignment,
            {"kind": "verifying"},
            {
                "kind": "verdict",
                "reward": reward,
                "evidence": [],
                "checker": "osworld@v1",
                "checker_digest": "sha256:0",
                "seconds": 0.1,
                "screenshot": SHOT,
            },
        )

    def stop(self, assignment: Assignment, computer: str) -> None:
        self.say(
            assignment, {"kind": "computer_stopped", "computer": computer, "reason": "the attempt ended"}
        )

    def end(self, assignment: Assignment, **fields: Any) -> None:
        self.say(assignment, {"kind": "attempt_ended", "ok": True, "steps": 1, **fields})

    def play(self, assignment: Assignment, reward: float = 1.0) -> None:
        """A whole attempt that goes well."""
        computer = self.start(assignment)
        self.step(assignment)
        self.verdict(assignment, reward)
        self.stop(assignment, computer)
        self.end(assignment)

    def save(self, assignment: Assignment, computer: str, *, name: str = "") -> str:
        """Its desktop, as what the order asks for. Returns the digest."""
        name = name or assignment.payload["state"]
        digest = f"sha256:{sha256(name)}"
        self.say(
            assignment,
            {
                "kind": "state_saved",
                "computer": computer,
                "name": name,
                "digest": digest,
                "size_bytes": 200_000_000,
                "seconds": 0.4,
                "attestation": {"screenshot": SHOT, "processes": ["Xvnc"], "files": sha256("files")},
            },
        )
        return digest

    def play_prefix(self, assignment: Assignment) -> str:
        """A whole prefix that goes well: all its steps, saved. Returns the digest of what was saved."""
        computer = self.start(assignment)
        for number in range(1, len(assignment.payload["recipe"]) + 1):
            self.step(assignment, number)
        digest = self.save(assignment, computer)
        self.stop(assignment, computer)
        self.end_prefix(assignment)
        return digest

    def end_prefix(self, assignment: Assignment, **fields: Any) -> None:
        self.say(assignment, {"kind": "prefix_ended", "ok": True, **fields})

    def play_fork(
        self, assignment: Assignment, reward: float = 1.0, *, differences: Sequence[str] = ()
    ) -> None:
        """An attempt that starts from what was saved; with differences it is no fork, and has no verdict."""
        computer, saved = str(uuid.uuid4()), assignment.payload["fork"]["state"]
        self.say(
            assignment,
            {"kind": "computer_started", "computer": computer, "engine": "fake", "from_state": saved},
            {"kind": "computer_ready", "computer": computer, "seconds": 0.2},
            {
                "kind": "forked",
                "computer": computer,
                "state": saved,
                "differences": list(differences),
                "seconds": 0.1,
            },
        )
        if differences:
            self.stop(assignment, computer)
            self.end(assignment, ok=False, invalid_reasons=["fork_mismatch"])
            return
        self.step(assignment, assignment.payload["prefix_steps"] + 1)
        self.verdict(assignment, reward)
        self.stop(assignment, computer)
        self.end(assignment)

    def break_down(self, assignment: Assignment, reason: str = "desktop_lost", **fields: Any) -> None:
        computer = self.start(assignment)
        self.stop(assignment, computer)
        self.end(assignment, ok=False, invalid_reasons=[reason], **fields)
