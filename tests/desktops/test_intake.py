"""Records taken in by the batch: as if one by one, in a handful of statements, and none sinks another."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.actor import Actor
from console.models import LedgerEntry, User, Workspace
from desktops.actions import report
from desktops.models import Assignment
from desktops.protocol import messages
from runs import tallies
from runs.actions.create import create_run
from runs.models import Attempt, Event, Run, Step
from runs.supervisor import one_pass
from tests.factories import StateFactory, document, sha256
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db
NOW = "2026-11-01T10:00:00Z"
SHOT = sha256("screen")


@pytest.fixture
def run(workspace: Workspace, owner: User, material: dict[str, Any]) -> Run:
    wanted = document("basics", ["task-1", "task-2"], rounds=2)
    return create_run(workspace=workspace, document=wanted, actor=Actor.person(owner))


@pytest.fixture
def worker(workspace: Workspace, owner: User, run: Run) -> PaperWorker:
    made = PaperWorker(workspace, owner)
    one_pass()
    return made


def step(number: int, **changes: Any) -> dict[str, Any]:
    times = {"act_ms": 1, "settle_ms": 30, "grab_ms": 4, "settled": True, "screenshot": SHOT, "at": NOW}
    return {"kind": "step", "number": number, "action": {"action": "wait"}, **times, **changes}


def life(steps: int, reward: float = 1.0) -> list[dict[str, Any]]:
    """The records of a whole attempt."""
    computer = str(uuid.uuid4())
    verdict = {"reward": reward, "evidence": [], "checker": "c", "checker_digest": "d", "seconds": 0.1}
    records: list[dict[str, Any]] = [
        {"kind": "computer_started", "computer": computer, "engine": "fake"},
        {"kind": "computer_ready", "computer": computer, "seconds": 0.4},
        {"kind": "setup_done", "seconds": 0.1, "steps": 0, "screenshot": SHOT},
        *(step(number) for number in range(1, steps + 1)),
        {"kind": "verifying"},
        {"kind": "verdict", "screenshot": SHOT, **verdict},
        {"kind": "computer_stopped", "computer": computer, "reason": "the attempt ended"},
        {"kind": "attempt_ended", "ok": True, "steps": steps},
    ]
    return [{"at": NOW, **record} for record in records]


def say(worker: PaperWorker, *said: tuple[Assignment, dict[str, Any]]) -> report.Applied:
    """One report of records of several assignments."""
    items = []
    for assignment, record in said:
        worker.number += 1
        items.append(
            messages.SpoolItem(
                number=worker.number, assignment=str(assignment.pk), epoch=assignment.epoch, record=record
            )
        )
    return report.apply_report(
        worker=worker.worker, connection=worker.connection, report=messages.Report(items=items)
    )


def interleaved(worker: PaperWorker, steps: int) -> list[tuple[Assignment, dict[str, Any]]]:
    lives = [[(assignment, record) for record in life(steps)] for assignment in worker.offered()]
    return [said for moment in zip(*lives, strict=True) for said in moment]


def test_whole_attempts_of_several_assignments_in_one_report(worker: PaperWorker, run: Run) -> None:
    applied = say(worker, *interleaved(worker, 3))
    assert (applied.number, applied.refused) == (20, [])
    run.refresh_from_db()
    assert (run.done, run.valid, run.success, run.running) == (2, 2, 2, 0)
    assert list(run.attempts.filter(status="done").values_list("steps", "outcome")) == [(3, "success")] * 2
    events = list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    assert events == list(range(1, run.last_seq + 1))
    told = list(
        Event.objects.filter(run=run, attempt_number=1).order_by("seq").values_list("kind", flat=True)
    )
    assert told == [
        "attempt_offered",
        "computer_started",
        "computer_ready",
        "setup_done",
        "step",
        "step",
        "step",
        "attempt_verifying",
        "attempt_verdict",
        "computer_stopped",
        "attempt_ended",
    ]
    assert LedgerEntry.objects.filter(settled_at__isnull=False).count() == 2
    assert tallies.differences() == []


def test_each_start_of_a_ready_desktop_is_counted_once(worker: PaperWorker) -> None:
    warm = StateFactory(worker=worker.worker, origin="warm")
    starts = [
        (one, {"kind": "computer_started", "computer": str(uuid.uuid4()), "engine": "fake", "at": NOW})
        for one in worker.offered()
    ]
    for _, record in starts:
        record["from_state"] = warm.name
    for _ in range(2):
        say(worker, *starts)
    warm.refresh_from_db()
    assert (warm.uses, warm.used_at.isoformat()) == (2, NOW.replace("Z", "+00:00"))


def test_more_steps_are_no_more_statements(worker: PaperWorker, run: Run) -> None:
    first, second = worker.offered()
    say(worker, *((one, record) for one in (first, second) for record in life(0)[:3]))
    with CaptureQueriesContext(
        connection,
    ) as few:
        say(worker, *((one, step(1)) for one in (first, second)))
    with CaptureQueriesContext(connection) as many:
        say(worker, *((one, step(n)) for n in range(2, 50) for one in (first, second)))
    assert Step.objects.count() == 98
    assert len(many) == len(few)


@pytest.mark.parametrize(
    "bad",
    [
        step(2),  # a number that was taken already
        step(9, act_ms=float("nan")),
        {"kind": "computer_ready", "computer": str(uuid.uuid4()), "seconds": 1, "at": NOW},
        {"kind": "computer_started", "computer": str(uuid.uuid4()), "engine": "e" * 21, "at": NOW},
        {"kind": "gossip", "at": NOW},
    ],
    ids=["twice", "not a number", "unknown computer", "too long", "unknown kind"],
)
def test_a_bad_record_sinks_nothing_else(worker: PaperWorker, run: Run, bad: dict[str, Any]) -> None:
    first, second = worker.offered()
    said = [(first, record) for record in life(3)] + [(second, record) for record in life(3)]
    said.insert(7, (first, bad))
    applied = say(worker, *said)
    assert [(problem.code, problem.number) for problem in applied.refused] == [("bad_record", 8)]
    assert applied.number == 21
    run.refresh_from_db()
    assert (run.done, run.success) == (2, 2)
    assert Step.objects.count() == 6
    seqs = list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, run.last_seq + 1))


def test_what_was_stored_before_is_passed_over(worker: PaperWorker, run: Run) -> None:
    first, _ = worker.offered()
    records = life(2)
    say(worker, *((first, record) for record in records[:5]))
    worker.number = 0
    applied = say(worker, *((first, record) for record in records))
    assert (applied.number, applied.refused) == (len(records), [])
    assert Step.objects.count() == 2
    assert Attempt.objects.get(pk=first.subject).outcome == "success"


def test_after_the_last_record_of_a_try_nothing_more_is_taken_in_the_same_report(
    worker: PaperWorker, run: Run
) -> None:
    first, _ = worker.offered()
    applied = say(worker, *((first, record) for record in [*life(1), step(2)]))
    assert [(problem.code, problem.number) for problem in applied.refused] == [("stale_epoch", 9)]
    assert Step.objects.count() == 1


def test_a_try_that_broke_is_queued_again_and_the_rest_of_the_report_goes_on(
    worker: PaperWorker, run: Run
) -> None:
    first, second = worker.offered()
    broken = {"kind": "attempt_ended", "ok": False, "invalid_reasons": ["desktop_lost"], "at": NOW}
    say(worker, (first, broken), *((second, record) for record in life(1)))
    run.refresh_from_db()
    assert (run.running, run.done) == (0, 1)
    again = Attempt.objects.get(pk=first.subject)
    assert (again.status, again.tries) == ("queued", 1)
    assert run.events.filter(kind="try_failed").count() == 1
