"""From queued to its end, told by a worker on paper: statuses, counters, tries, money and the log."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from console.actions.budgets import root_budget
from console.actor import Actor
from console.models import Budget, LedgerEntry, Workspace
from desktops.actions import lease
from desktops.actions.rates import set_worker_rate
from desktops.models import Assignment, Computer, Worker
from runs import scoring, supervisor
from runs.actions.advance import advance_run
from runs.actions.retry import retry_invalid
from runs.models import Attempt, AttemptTry, Event, Run, Step
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

NewRun = Callable[..., Run]


def fresh(run: Run) -> Run:
    return Run.objects.select_related("budget").get(pk=run.pk)


def test_a_run_plays_all_attempts_and_completes(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run()
    one_pass()
    assert fresh(run).status == "preparing"
    first, second = worker.offered()
    worker.play(first, reward=1.0)
    one_pass()
    worker.play(second, reward=0.4)
    one_pass()
    run = fresh(run)
    assert (run.status, run.stop_reason) == ("completed", "all_tasks_done")
    counts = scoring.counts(run)
    assert (counts["done"], counts["success"], counts["fail"], counts["valid"]) == (2, 1, 1, 2)
    assert list(run.attempts.values_list("outcome", flat=True)) == ["success", "fail"]


def test_a_run_is_running_once_a_desktop_is_ready(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run()
    one_pass()
    worker.start(worker.offered()[0])
    one_pass()
    assert fresh(run).status == "running"


def test_a_run_that_is_seen_only_while_it_is_verified_has_been_running(
    new_run: NewRun, worker: PaperWorker
) -> None:
    run = new_run()
    one_pass()
    for assignment in worker.offered():
        worker.start(assignment)
        worker.say(assignment, {"kind": "verifying"})
    seen = []
    for _ in range(2):
        one_pass()
        seen.append(fresh(run).status)
    assert seen == ["running", "verifying"]


def test_the_counts_add_up_at_every_moment(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(rounds=2)
    for _ in range(4):
        one_pass()
        for assignment in worker.offered():
            worker.play(assignment)
        c = scoring.counts(fresh(run))
        assert c["planned"] == sum(
            c[k] for k in ("queued", "running", "verifying", "done", "error", "cancelled")
        )
        assert c["planned"] == c["valid"] + c["invalid"] + c["not_checked"]
        assert c["valid"] == c["success"] + c["fail"]


def test_rounds_are_stored_one_after_another(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(rounds=3)
    one_pass()
    assert run.attempts.count() == 2
    assert scoring.counts(fresh(run))["planned"] == 6


def test_a_broken_desktop_is_tried_again_and_never_a_fail(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(tasks=["task-1"])
    one_pass()
    worker.break_down(worker.offered()[0])
    attempt = run.attempts.get()
    assert (attempt.status, attempt.verifier, attempt.outcome) == ("queued", "not_checked", None)
    one_pass()
    worker.play(worker.offered()[0])
    one_pass()
    attempt.refresh_from_db()
    assert (attempt.status, attempt.outcome, attempt.tries) == ("done", "success", 2)
    assert [one.invalid_reasons for one in attempt.try_rows.all()] == [["desktop_lost"], []]


def test_after_three_broken_tries_the_attempt_has_no_verdict(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(tasks=["task-1"])
    for _ in range(3):
        one_pass()
        worker.break_down(worker.offered()[0])
    one_pass()
    attempt = run.attempts.get()
    assert (attempt.status, attempt.verifier, attempt.outcome) == ("error", "not_checked", None)
    assert attempt.invalid_reasons == ["desktop_lost"]
    assert fresh(run).stop_reason == "all_tasks_done"


def test_a_checker_that_broke_makes_the_attempt_invalid_not_failed(
    new_run: NewRun, worker: PaperWorker
) -> None:
    run = new_run(tasks=["task-1"])
    for _ in range(3):
        one_pass()
        worker.break_down(worker.offered()[0], "checker_error", checker_error="no answer")
    attempt = run.attempts.get()
    assert (attempt.status, attempt.verifier, attempt.outcome) == ("done", "invalid", None)
    assert attempt.checker_error == "no answer"


def test_a_verdict_stands_whatever_breaks_after_it(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(tasks=["task-1"])
    one_pass()
    assignment = worker.offered()[0]
    computer = worker.start(assignment)
    worker.verdict(assignment, 1.0)
    worker.stop(assignment, computer)
    worker.end(assignment, ok=False, invalid_reasons=["upload_failed"])
    attempt = run.attempts.get()
    assert (attempt.status, attempt.verifier, attempt.outcome) == ("done", "valid", "success")


def test_enough_valid_attempts_stop_the_run(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(stop_after_valid=1)
    one_pass()
    worker.play(worker.offered()[0], reward=0.0)
    one_pass()
    for assignment in worker.offered():
        assert assignment.status == Assignment.Status.STOPPING
        worker.end(assignment, ok=False, stopped=True)
    one_pass()
    run = fresh(run)
    assert (run.status, run.stop_reason) == ("completed", "verified_target_reached")
    assert (run.done, run.cancelled) == (1, 1)


def test_the_time_cap_stops_the_run(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(time_cap_minutes=1)
    one_pass()
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(minutes=2))
    one_pass()
    for assignment in worker.offered():
        worker.end(assignment, ok=False, stopped=True)
    one_pass()
    run = fresh(run)
    assert (run.status, run.stop_reason, run.cancelled) == ("completed", "time_cap_reached", 2)


def test_a_spend_cap_stops_the_run_and_is_never_passed(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(spend_cap_usd="0.01", rounds=50)  # ten minutes of one desktop
    for _ in range(60):
        one_pass()
        for assignment in worker.offered():
            computer = worker.start(assignment, seconds_ago=58)
            worker.verdict(assignment, 1.0)
            worker.stop(assignment, computer)
            worker.end(assignment)
    run = fresh(run)
    assert (run.status, run.stop_reason) == ("completed", "budget_exceeded")
    assert Decimal("0.009") < run.budget.spent <= Decimal("0.01")
    assert run.budget.reserved == 0


def test_the_workspace_cap_stops_the_run(new_run: NewRun, worker: PaperWorker, workspace: Workspace) -> None:
    run = new_run()
    root = root_budget(workspace)
    root.cap = Decimal("0.0001")
    root.save()
    one_pass()
    assert fresh(run).stop_reason == "workspace_budget_exceeded"


def test_the_ledger_is_the_seconds_that_desktops_existed(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(tasks=["task-1"])
    one_pass()
    assignment = worker.offered()[0]
    computer = worker.start(assignment, seconds_ago=36)
    worker.verdict(assignment, 1.0)
    worker.stop(assignment, computer)
    worker.end(assignment)
    one_pass()
    entry = LedgerEntry.objects.get(subject=computer)
    assert 36 <= entry.seconds < 60
    assert entry.cost == fresh(run).budget.spent == root_budget(run.workspace).spent
    assert fresh(run).budget.reserved == root_budget(run.workspace).reserved == 0


def test_an_attempt_that_waits_for_anothers_setup_says_so(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(tasks=["task-1"])
    one_pass()
    worker.say(worker.offered()[0], {"kind": "setup_awaited"})
    assert Event.objects.get(run=run, kind="setup_awaited").attempt_number == 1


def test_a_silent_worker_loses_its_lease_and_its_late_results_are_refused(
    new_run: NewRun, worker: PaperWorker
) -> None:
    run = new_run(tasks=["task-1"])
    one_pass()
    assignment = worker.offered()[0]
    computer = worker.start(assignment)
    worker.beat()
    past = timezone.now() - timedelta(seconds=1)
    Assignment.objects.update(lease_until=past)
    Worker.objects.update(last_seen_at=timezone.now())  # back, and without it
    one_pass()
    attempt = run.attempts.get()
    assert (attempt.status, attempt.tries) == ("running", 2)  # offered again at once
    late = {"kind": "attempt_ended", "ok": True}
    refused = worker.say(assignment, late).refused
    assert [problem.code for problem in refused] == ["stale_epoch"]
    attempt.refresh_from_db()
    assert attempt.status == "running"
    # The desktop's end is still believed: money follows it.
    worker.stop(assignment, computer)
    assert Computer.objects.get(pk=computer).stopped_at is not None


def test_what_a_worker_has_not_taken_yet_stays_offered_while_it_is_heard_and_the_desktop_is_paid(
    new_run: NewRun, worker: PaperWorker
) -> None:
    run = new_run(tasks=["task-1"])
    one_pass()
    past = timezone.now() - timedelta(seconds=1)
    Assignment.objects.update(lease_until=past)
    one_pass()
    assert (worker.offered()[0].epoch, run.attempts.get().tries) == (1, 1)
    Assignment.objects.update(paid_until=past, told_until=past)
    one_pass()
    assert (worker.offered()[0].epoch, run.attempts.get().tries) == (2, 2)


def test_what_a_silent_worker_has_not_taken_is_offered_anew(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(tasks=["task-1"])
    one_pass()
    long_ago = timezone.now() - timedelta(minutes=1)
    Assignment.objects.update(lease_until=long_ago)
    Worker.objects.update(last_seen_at=long_ago)
    one_pass()
    assert (worker.offered(), run.attempts.get().status) == ([], "queued")


def test_a_lost_workers_desktop_is_settled_at_its_paid_time(new_run: NewRun, worker: PaperWorker) -> None:
    new_run(tasks=["task-1"])
    one_pass()
    computer = worker.start(worker.offered()[0], seconds_ago=30)
    past = timezone.now() - timedelta(seconds=1)
    # What was paid ahead last never reached the worker, nor its desktop, which has ended itself before.
    later = timezone.now() - timedelta(milliseconds=500)
    Assignment.objects.update(lease_until=past, told_until=past, paid_until=later)
    one_pass()
    row = Computer.objects.get(pk=computer)
    assert row.stopped_at == past
    assert LedgerEntry.objects.get(subject=computer).settled_at is not None


def test_the_log_has_no_gap_and_is_append_only(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run()
    one_pass()
    for assignment in worker.offered():
        worker.play(assignment)
    one_pass()
    seqs = list(Event.objects.filter(run=run).values_list("seq", flat=True))
    assert seqs == list(range(1, fresh(run).last_seq + 1))
    with pytest.raises(IntegrityError), transaction.atomic():
        Event.objects.filter(run=run, seq=1).update(kind="other")


def test_a_run_that_has_ended_cannot_change(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(tasks=["task-1"])
    one_pass()
    worker.play(worker.offered()[0])
    one_pass()
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.filter(pk=run.pk).update(status="queued", ended_at=None)


@pytest.mark.parametrize("again", [False, True])
def test_a_verdict_stays_even_when_its_run_is_reopened(
    again: bool, new_run: NewRun, worker: PaperWorker
) -> None:
    run = new_run(tasks=["task-1", "task-2"])
    one_pass()
    judged, faulty = worker.offered()
    worker.play(judged)
    for number in range(3):
        worker.break_down(faulty if not number else worker.offered()[0])
        one_pass()
    if again:
        retry_invalid(run, actor=Actor.person(run.creator))
    attempt = Attempt.objects.get(pk=judged.subject)
    changes: list[dict[str, Any]] = [
        {"reward": 0.5},
        {"verifier": "invalid", "reward": None},
        {"status": "queued"},
        {"task": Attempt.objects.get(pk=faulty.subject).task_id},
    ]
    for change in changes:
        with pytest.raises(IntegrityError), transaction.atomic():
            Attempt.objects.filter(pk=attempt.pk).update(**change)
    tries = AttemptTry.objects.filter(ended_at__isnull=False)
    assert tries.count() == 4
    for change in ({"reward": 0.5}, {"verdict": {}}, {"ok": None}, {"ended_at": None}):
        for one in tries:
            with pytest.raises(IntegrityError), transaction.atomic():
                AttemptTry.objects.filter(pk=one.pk).update(**change)
    with pytest.raises(IntegrityError), transaction.atomic():
        Step.objects.filter(attempt_try__in=tries).update(error="none")


def test_an_attempt_without_a_verdict_begins_anew_only_in_a_run_that_goes_on(
    new_run: NewRun, worker: PaperWorker
) -> None:
    run = new_run(tasks=["task-1"])
    for _ in range(3):
        one_pass()
        worker.break_down(worker.offered()[0])
    one_pass()
    assert fresh(run).is_terminal
    anew = {"status": "queued", "invalid_reasons": [], "ended_at": None}
    with pytest.raises(IntegrityError), transaction.atomic():
        run.attempts.update(**anew)
    retry_invalid(run, actor=Actor.person(run.creator))
    assert run.attempts.get().status == "queued"


def test_a_pass_repeated_changes_nothing(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run()
    one_pass()
    before = (fresh(run).last_seq, Assignment.objects.count(), Attempt.objects.count())
    one_pass()
    assert (fresh(run).last_seq, Assignment.objects.count(), Attempt.objects.count()) == before


def test_without_a_worker_the_run_waits_and_its_time_does_not_run(new_run: NewRun) -> None:
    run = new_run()
    one_pass()
    assert fresh(run).status == "queued"
    assert fresh(run).started_at is None


def test_no_more_desktops_than_the_worker_has_slots(new_run: NewRun, worker: PaperWorker) -> None:
    new_run(parallel_copies=4)
    one_pass()
    one_pass()
    assert len(worker.offered()) == 2


def test_a_new_leader_gives_leases_their_time_before_it_calls_them_lost(
    new_run: NewRun, worker: PaperWorker
) -> None:
    new_run(tasks=["task-1"])
    one_pass()
    Assignment.objects.update(lease_until=timezone.now() - timedelta(minutes=5))
    lease.grace()
    one_pass()
    assert [assignment.status for assignment in worker.offered()] == ["offered"]


def test_a_run_that_breaks_keeps_no_other_waiting(
    new_run: NewRun, worker: PaperWorker, caplog: pytest.LogCaptureFixture
) -> None:
    broken, sound = new_run(), new_run()
    Run.objects.filter(pk=broken.pk).update(spec={})
    one_pass()
    assert (fresh(broken).status, fresh(sound).status) == ("queued", "preparing")
    assert f"Advancing run {broken.pk} failed" in caplog.text


def test_a_look_at_a_run_that_only_plays_on_asks_little_of_the_database(
    new_run: NewRun, worker: PaperWorker, django_assert_max_num_queries: Callable[..., Any]
) -> None:
    run = new_run(tasks=["task-1", "task-2"])
    one_pass()
    for assignment in worker.offered():
        worker.start(assignment)
    one_pass()
    with django_assert_max_num_queries(7):  # its own transaction's begin and end included
        advance_run(run.pk)


def test_the_supervisor_outlives_a_bell_whose_database_went_away(
    new_run: NewRun, worker: PaperWorker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dialled = []

    def bells(bell: str, seconds: float) -> Iterator[None]:
        dialled.append(bell)
        yield
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(supervisor, "listen_blocking", bells)
    monkeypatch.setattr(supervisor, "TICK_SECONDS", 0)
    monkeypatch.setattr(supervisor.connection, "close", lambda: None)  # it is the test's own
    monkeypatch.setattr(supervisor, "lead", lambda: True)
    run = new_run()
    supervisor.supervise(lambda: len(dialled) > 2)
    assert fresh(run).status == "preparing"
    assert "dialling again" in caplog.text


def cut_off(worker: PaperWorker, assignment: Assignment) -> None:
    """Its worker ends a desktop that nothing pays for any longer."""
    computer = worker.start(assignment, seconds_ago=30)
    worker.stop(assignment, computer)
    ended = {"kind": "attempt_ended", "ok": False, "invalid_reasons": ["paid_until_reached"], "steps": 0}
    worker.say(assignment, {**ended, "detail": "paid until then"})


def test_an_attempt_that_was_cut_off_though_there_is_money_is_played_again(
    new_run: NewRun, worker: PaperWorker
) -> None:
    """Its worker stood still for longer than its desktop was paid ahead."""
    run = new_run(tasks=["task-1"], spend_cap_usd="5.00")
    one_pass()
    cut_off(worker, worker.offered()[0])
    one_pass()
    (again,) = worker.offered()
    assert again.epoch == 2
    worker.play(again)
    one_pass()
    run = fresh(run)
    assert (run.stop_reason, run.success, run.error) == ("all_tasks_done", 1, 0)


def test_a_run_whose_every_attempt_was_cut_off_by_its_cap_says_so(
    new_run: NewRun, worker: PaperWorker
) -> None:
    run = new_run(tasks=["task-1"], spend_cap_usd="0.01")
    one_pass()
    cut_off(worker, worker.offered()[0])
    Budget.objects.filter(pk=run.budget_id).update(spent=F("cap"))
    one_pass()
    run = fresh(run)
    assert (run.status, run.stop_reason) == ("completed", "budget_exceeded")


@pytest.mark.parametrize(
    ("rate", "left", "why"), [("7.20", "0.02", "budget_exceeded"), ("0.01", "0.02", "all_tasks_done")]
)
def test_what_is_left_is_measured_by_the_rate_that_the_run_was_played_at(
    new_run: NewRun, worker: PaperWorker, rate: str, left: str, why: str
) -> None:
    run = new_run(tasks=["task-1"], spend_cap_usd="0.10")
    template = run.template_version.template
    set_worker_rate(template=template, worker=worker.worker, rate=Decimal(rate), actor=Actor.system())
    one_pass()
    Attempt.objects.update(tries_allowed=1)
    cut_off(worker, worker.offered()[0])
    Budget.objects.filter(pk=run.budget_id).update(spent=F("cap") - Decimal("0.02"))
    one_pass()
    assert fresh(run).stop_reason == why


def test_a_run_that_the_workspaces_cap_cut_off_says_so(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(tasks=["task-1"])
    one_pass()
    cut_off(worker, worker.offered()[0])
    root = root_budget(run.workspace)
    Budget.objects.filter(pk=root.pk).update(cap=F("spent") + F("reserved"))
    one_pass()
    run = fresh(run)
    assert (run.status, run.stop_reason) == ("completed", "workspace_budget_exceeded")
