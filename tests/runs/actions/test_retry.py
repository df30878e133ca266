"""Attempts without a verdict, tried again in the same run: while it goes on, and after it has ended."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actor import Actor
from console.models import AuditEntry, User, Workspace
from desktops.actions.rates import set_worker_rate
from runs import scoring
from runs.actions.caps import CapsRejected, MayNotChange
from runs.actions.retry import CannotRetry, retry_invalid
from runs.actions.stop import cancel_run
from runs.models import Run
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

NewRun = Callable[..., Run]


@pytest.fixture
def worker(workspace: Workspace, owner: User, material: dict[str, Any]) -> PaperWorker:
    return PaperWorker(workspace, owner, slots=4)


def fresh(run: Run) -> Run:
    return Run.objects.select_related("budget").get(pk=run.pk)


def break_all(run: Run, worker: PaperWorker, reason: str = "desktop_lost") -> None:
    """Every attempt ends without a verdict, after all its tries."""
    for _ in range(3):
        one_pass()
        for assignment in worker.offered():
            worker.break_down(assignment, reason)
    one_pass()


def break_first(run: Run, worker: PaperWorker) -> None:
    """The first attempt ends without a verdict, after all its tries; nothing else ends."""
    for _ in range(3):
        one_pass()
        first = run.attempts.get(number=1)
        worker.break_down(next(one for one in worker.offered() if one.subject == first.pk))
    one_pass()


def play_all(worker: PaperWorker) -> None:
    one_pass()
    for assignment in worker.offered():
        worker.play(assignment)
    one_pass()


@pytest.mark.parametrize("reason", ["desktop_lost", "checker_error"])
def test_an_ended_run_goes_on_for_what_had_no_verdict_and_every_try_is_kept(
    new_run: NewRun, worker: PaperWorker, owner: User, reason: str
) -> None:
    run = new_run(tasks=["task-1"])
    break_all(run, worker, reason)
    before = fresh(run)
    assert (before.status, before.valid) == ("completed", 0)
    assert retry_invalid(run, actor=Actor.person(owner)) == 1
    run = fresh(run)
    assert (run.status, run.stop_reason, run.ended_at) == ("queued", "", None)
    assert (run.error, run.done, run.invalid, run.queued) == (0, 0, 0, 1)
    play_all(worker)
    run = fresh(run)
    assert (run.status, run.stop_reason) == ("completed", "all_tasks_done")
    attempt = run.attempts.get()
    assert (attempt.status, attempt.outcome, attempt.tries) == ("done", "success", 4)
    assert [one.invalid_reasons for one in attempt.try_rows.all()] == [[reason]] * 3 + [[]]
    assert [one.ok for one in attempt.try_rows.all()] == [False, False, False, True]


def test_the_log_tells_how_it_had_ended_and_has_no_gap(
    new_run: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = new_run(tasks=["task-1"])
    break_all(run, worker)
    retry_invalid(run, actor=Actor.person(owner))
    [event] = run.events.filter(kind="run_reopened")
    assert event.data["status"] == "completed"
    assert event.data["reason"] == "all_tasks_done"
    assert event.data["attempts"] == 1
    seqs = list(run.events.values_list("seq", flat=True))
    assert seqs == list(range(1, fresh(run).last_seq + 1))
    assert AuditEntry.objects.get(action="run.retried").detail == {"attempts": 1, "reopened": 1}


def test_a_run_that_goes_on_gets_them_back_at_once(new_run: NewRun, worker: PaperWorker, owner: User) -> None:
    run = new_run(parallel_copies=2)  # four attempts, two at a time
    break_first(run, worker)
    assert fresh(run).error == 1
    retry_invalid(run, actor=Actor.person(owner))
    run = fresh(run)
    assert (run.error, run.reopened) == (0, 0)
    assert run.events.filter(kind="attempts_retried").exists()
    for _ in range(4):
        play_all(worker)
    run = fresh(run)
    assert (run.status, run.success) == ("completed", 4)


def test_verdicts_stay_and_the_money_goes_on_in_the_same_budget(
    new_run: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = new_run()
    one_pass()
    first, second = worker.offered()
    worker.play(first, reward=0.4)
    for _ in range(3):
        worker.break_down(second)
        one_pass()
        second = next(iter(worker.offered()), second)
    assert fresh(run).status == "completed"
    spent = fresh(run).budget.spent
    assert retry_invalid(run, actor=Actor.person(owner)) == 1
    play_all(worker)
    run = fresh(run)
    assert list(run.attempts.order_by("number").values_list("outcome", flat=True)) == ["fail", "success"]
    assert run.budget.spent > spent
    assert run.budget.reserved == 0


def test_what_was_cancelled_stays_cancelled_and_no_further_round_is_made(
    new_run: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = new_run(tasks=["task-1"], rounds=3)
    break_first(run, worker)  # the later rounds play or wait
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(minutes=31))
    one_pass()
    for assignment in worker.offered():
        worker.end(assignment, ok=False, stopped=True)
    one_pass()
    run = fresh(run)
    assert (run.stop_reason, run.error, run.cancelled) == ("time_cap_reached", 1, 2)
    with pytest.raises(CapsRejected, match="used up"):
        retry_invalid(run, actor=Actor.person(owner))
    assert fresh(run).status == "completed"
    retry_invalid(run, actor=Actor.person(owner), time_cap_minutes=45)
    play_all(worker)
    run = fresh(run)
    counts = scoring.counts(run)
    assert (run.status, run.stop_reason) == ("completed", "time_cap_reached")
    assert (counts["success"], counts["cancelled"], counts["queued"]) == (1, 2, 0)
    assert (run.time_cap_minutes, run.spec["time_cap_minutes"]) == (45, 30)


def test_the_time_in_between_is_not_the_runs(new_run: NewRun, worker: PaperWorker, owner: User) -> None:
    run = new_run(tasks=["task-1"])
    break_all(run, worker)
    retry_invalid(run, actor=Actor.person(owner))
    # As if it had played for ten minutes, two hours ago.
    began = timezone.now() - timedelta(hours=2)
    Run.objects.filter(pk=run.pk).update(started_at=began, earlier_seconds=600)
    assert fresh(run).deadline is None
    one_pass()
    run = fresh(run)
    assert run.started_at == began
    assert run.deadline is not None
    assert run.deadline - timezone.now() > timedelta(minutes=19)
    assert 600 <= run.time_used(timezone.now()) < 610
    play_all(worker)
    assert fresh(run).stop_reason == "all_tasks_done"


def test_a_budget_that_is_used_up_needs_a_higher_cap(
    new_run: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = new_run(tasks=["task-1"])
    break_all(run, worker)
    budget = fresh(run).budget
    budget.spent = budget.cap
    budget.save()
    with pytest.raises(CapsRejected) as refused:
        retry_invalid(run, actor=Actor.person(owner))
    assert [(e.field, e.code) for e in refused.value.errors] == [("spend_cap_usd", "used_up")]
    assert fresh(run).status == "completed"
    retry_invalid(run, actor=Actor.person(owner), spend_cap_usd=Decimal("0.90"))
    assert scoring.caps(fresh(run))["spend_cap_usd"] == Decimal("0.90")


@pytest.mark.parametrize(("rate", "enough"), [("7.20", False), ("0.01", True)])
def test_what_is_left_is_measured_by_the_rate_of_the_worker_that_would_play(
    new_run: NewRun, worker: PaperWorker, owner: User, rate: str, enough: bool
) -> None:
    run = new_run(tasks=["task-1"])
    break_all(run, worker)
    template = run.template_version.template
    set_worker_rate(template=template, worker=worker.worker, rate=Decimal(rate), actor=Actor.system())
    budget = fresh(run).budget
    budget.spent = (budget.cap or Decimal(0)) - Decimal("0.0005")
    budget.save()
    if enough:
        assert retry_invalid(run, actor=Actor.person(owner)) == 1
        return
    with pytest.raises(CapsRejected):
        retry_invalid(run, actor=Actor.person(owner))
    assert fresh(run).attempts.get().status == "error"


def test_a_failed_run_may_be_reopened_and_fails_no_more(
    new_run: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = new_run(tasks=["task-1"], rounds=6)
    for _ in range(20):
        one_pass()
        for assignment in worker.offered():
            worker.break_down(assignment)
    assert (fresh(run).status, fresh(run).stop_reason) == ("failed", "infrastructure_failure")
    assert retry_invalid(run, actor=Actor.person(owner)) == 6
    for _ in range(4):
        play_all(worker)
    run = fresh(run)
    assert (run.status, run.stop_reason, run.success) == ("completed", "all_tasks_done", 6)


def test_what_cannot_be_retried_says_why(new_run: NewRun, worker: PaperWorker, owner: User) -> None:
    whole = new_run(tasks=["task-1"])
    play_all(worker)
    with pytest.raises(CannotRetry) as refused:
        retry_invalid(whole, actor=Actor.person(owner))
    assert refused.value.code == "nothing_to_retry"
    stopped = new_run(tasks=["task-1"])
    cancel_run(stopped, actor=Actor.person(owner))
    with pytest.raises(CannotRetry) as refused:
        retry_invalid(stopped, actor=Actor.person(owner))
    assert refused.value.code == "run_cancelled"


def test_a_member_may_not_retry_the_run_of_another(
    new_run: NewRun, worker: PaperWorker, member: User
) -> None:
    run = new_run(tasks=["task-1"])
    break_all(run, worker)
    with pytest.raises(MayNotChange):
        retry_invalid(run, actor=Actor.person(member))


@pytest.mark.parametrize(
    "change",
    [
        {"status": "queued", "ended_at": None, "stop_reason": ""},
        {"status": "queued", "ended_at": None, "stop_reason": "", "reopened": 2},
        {"status": "queued", "ended_at": None, "stop_reason": "", "reopened": 1, "error": 0},
        {"status": "running", "ended_at": None, "stop_reason": "", "reopened": 1},
        {"time_cap_minutes": 31},
        {"reopened": 1},
    ],
)
def test_the_database_lets_no_other_change_through(
    new_run: NewRun, worker: PaperWorker, owner: User, change: dict[str, object]
) -> None:
    run = new_run(tasks=["task-1"])
    break_all(run, worker)
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(**change)


def test_a_cancelled_run_stays_history_in_the_database_too(new_run: NewRun, owner: User) -> None:
    run = new_run(tasks=["task-1"])
    cancel_run(run, actor=Actor.person(owner))
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(status="queued", ended_at=None, stop_reason="", reopened=1)


def test_the_steps_of_a_later_try_are_there(new_run, worker, owner, api) -> None:
    run = new_run(tasks=["task-1"])
    for _ in range(3):
        one_pass()
        worker.break_down(worker.offered()[0])
    one_pass()
    retry_invalid(run, actor=Actor.person(owner))
    one_pass()
    worker.play(worker.offered()[0])
    attempt = run.attempts.get()
    reply = api().get(f"/v1/attempts/{attempt.pk}/steps?try=4")
    assert reply.status_code == 200, reply.content
    assert reply.json()["results"]
