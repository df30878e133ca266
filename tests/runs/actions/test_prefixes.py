"""A forking run: the prefix is played once and saved, its attempts start from what was saved, and nothing waits for
what will not come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actor import Actor
from console.models import LedgerEntry, User, Workspace
from desktops.actions import report, states
from desktops.actions.states import StateNeeded, let_go
from desktops.models import Computer, State, TemplateVersion
from desktops.protocol import messages
from runs import scoring
from runs.actions.stop import cancel_run
from runs.models import Event, Prefix, Run, Step, Task
from runs.receipt import receipt
from runs.supervisor import one_pass
from tests.factories import sha256
from tests.runs.paper_worker import PaperWorker

NewRun = Callable[..., Run]
CLICK = {"action": "click", "x": 10, "y": 20}


@pytest.fixture
def worker(forking_worker: PaperWorker) -> PaperWorker:
    return forking_worker


def fresh(run: Run) -> Run:
    return Run.objects.select_related("budget", "workspace").get(pk=run.pk)


def kinds(run: Run) -> list[str]:
    return list(Event.objects.filter(run=run).values_list("kind", flat=True))


def methods(run: Run) -> set[str]:
    return set(run.attempts.values_list("fork_method", flat=True))


def play_saved(run: Run, worker: PaperWorker) -> Prefix:
    """Until the prefix is saved and its attempts are offered."""
    one_pass()
    (assignment,) = worker.offered()
    worker.play_prefix(assignment)
    one_pass()
    return run.prefixes.get()


def test_the_prefix_is_played_once_and_each_attempt_starts_from_what_was_saved(
    forking: NewRun, worker: PaperWorker
) -> None:
    run = forking()
    one_pass()
    (assignment,) = worker.offered()
    assert (assignment.kind, len(assignment.payload["recipe"])) == ("prefix", 3)
    digest = worker.play_prefix(assignment)
    one_pass()
    offered = worker.offered()
    assert [one.kind for one in offered] == ["attempt"] * 4
    assert {one.payload["fork"]["state"] for one in offered} == {assignment.payload["state"]}
    for one in offered:
        worker.play_fork(one)
    one_pass()
    run = fresh(run)
    assert (run.status, run.stop_reason) == ("completed", "all_tasks_done")
    assert (scoring.counts(run)["planned"], scoring.counts(run)["success"]) == (4, 4)
    prefix = run.prefixes.get()
    assert (prefix.status, prefix.steps, prefix.state_digest) == ("done", 3, digest)
    assert methods(run) == {"live"}
    assert list(run.attempts.values_list("steps", flat=True)) == [4] * 4
    assert Step.objects.filter(prefix_try__prefix=prefix, prefix=True).count() == 3
    assert Step.objects.filter(attempt_try__attempt__run=run).count() == 4


def test_each_attempt_says_what_it_was_started_from(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    prefix = play_saved(run, worker)
    worker.play_fork(worker.offered()[0])
    one = run.attempts.first().try_rows.get()
    assert (one.from_state, one.from_digest) == (prefix.state.name, prefix.state_digest)
    assert State.objects.get(pk=prefix.state_id).uses == 1


def test_the_prefix_is_paid_once_by_the_run_and_its_desktop_counts_in_the_receipt(
    forking: NewRun, worker: PaperWorker
) -> None:
    run = forking()
    play_saved(run, worker)
    for one in worker.offered():
        worker.play_fork(one)
    one_pass()
    run = fresh(run)
    desktops = Computer.objects.filter(group=run.pk)
    assert sorted(desktops.values_list("purpose", flat=True)) == ["attempt"] * 4 + ["prefix"]
    entries = LedgerEntry.objects.filter(budget=run.budget)
    assert entries.count() == 5
    assert sum(entry.cost for entry in entries) == run.budget.spent
    assert run.budget.reserved == 0
    told = receipt(run)
    assert (told.started, told.stopped, told.left, told.open) == (5, 5, 0, 0)


def test_the_log_has_no_gap_and_tells_of_the_prefix_by_its_number(
    forking: NewRun, worker: PaperWorker
) -> None:
    run = forking()
    play_saved(run, worker)
    for one in worker.offered():
        worker.play_fork(one)
    one_pass()
    assert list(Event.objects.filter(run=run).values_list("seq", flat=True)) == list(
        range(1, fresh(run).last_seq + 1)
    )
    of_prefix = Event.objects.filter(run=run, data__prefix=1).values_list("kind", flat=True)
    assert list(of_prefix) == [
        "prefix_offered",
        "computer_started",
        "computer_ready",
        "setup_done",
        "step",
        "step",
        "step",
        "prefix_saved",
        "computer_stopped",
        "prefix_ended",
        "prefix_released",
    ]
    assert kinds(run).count("forked") == 4


def test_records_of_a_prefix_and_of_attempts_in_one_report_share_the_runs_log(
    forking: NewRun, worker: PaperWorker
) -> None:
    run = forking(tasks=["task-1", "task-2"])
    one_pass()
    first, second = worker.offered()
    worker.play_prefix(first)
    one_pass()
    attempt = worker.offered_of("attempt")[0]
    at = timezone.now().isoformat()
    items = []
    for assignment in (attempt, second, attempt, second):
        worker.number += 1
        record = {"kind": "step", "number": len(items) + 1, "action": CLICK, "screenshot": sha256("screen")}
        record |= {"act_ms": 1, "settle_ms": 1, "grab_ms": 1, "settled": True, "at": at}
        items.append(
            messages.SpoolItem(number=worker.number, assignment=str(assignment.pk), epoch=1, record=record)
        )
    applied = report.apply_report(
        worker=worker.worker, connection=worker.connection, report=messages.Report(items=items)
    )
    assert applied.refused == []
    assert list(Event.objects.filter(run=run).values_list("seq", flat=True)) == list(
        range(1, fresh(run).last_seq + 1)
    )


def test_the_run_is_running_while_only_its_prefix_is_played(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    one_pass()
    assert fresh(run).status == "preparing"
    worker.start(worker.offered()[0])
    one_pass()
    run = fresh(run)
    assert (run.status, scoring.counts(run)["running"], scoring.counts(run)["queued"]) == ("running", 0, 4)


def test_each_task_copy_and_round_has_a_prefix_of_its_own(forking: NewRun, worker: PaperWorker) -> None:
    run = forking(tasks=["task-1", "task-2"], parallel_copies=2, rounds=2, fork_copies=2)
    for _ in range(20):
        one_pass()
        for one in worker.offered():
            worker.play_prefix(one) if one.kind == "prefix" else worker.play_fork(one)
    run = fresh(run)
    assert run.status == "completed"
    assert list(run.prefixes.values_list("number", flat=True)) == list(range(1, 9))
    groups = run.prefixes.order_by().values_list("task__task_id", "round", "copy")
    assert len(set(groups)) == 8
    assert methods(run) == {"live"}
    assert not State.objects.held().filter(origin="prefix").exists()


def test_attempts_take_slots_before_another_prefix_does(
    forking: NewRun, workspace: Workspace, owner: User, material: dict[str, object]
) -> None:
    Task.objects.update(recipe=[CLICK] * 5)
    one_slot = PaperWorker(workspace, owner, slots=1, can_fork=True)
    run = forking(tasks=["task-1", "task-2"], fork_copies=2)
    order = []
    for _ in range(8):
        one_pass()
        for one in one_slot.offered():
            order.append(one.kind)
            one_slot.play_prefix(one) if one.kind == "prefix" else one_slot.play_fork(one)
    assert order == ["prefix", "attempt", "attempt", "prefix", "attempt", "attempt"]
    one_pass()
    assert fresh(run).status == "completed"


def test_where_no_worker_can_save_desktops_each_attempt_plays_the_prefix(
    forking: NewRun, workspace: Workspace, owner: User, material: dict[str, object]
) -> None:
    Task.objects.update(recipe=[CLICK] * 5)
    plain = PaperWorker(workspace, owner, slots=8)
    run = forking()
    one_pass()
    assert [one.kind for one in plain.offered()] == ["attempt"] * 4
    assert not run.prefixes.exists()
    assert methods(run) == {"replay"}


def test_a_recipe_that_ends_within_the_prefix_is_not_split(forking: NewRun, worker: PaperWorker) -> None:
    Task.objects.update(recipe=[CLICK] * 3)
    run = forking()
    one_pass()
    assert [one.kind for one in worker.offered()] == ["attempt"] * 4
    assert methods(run) == {"replay"}


def test_attempts_of_a_run_without_forks_say_nothing_of_them(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run()
    one_pass()
    assert methods(run) == {""}
    assert not run.prefixes.exists()


def test_a_prefix_that_breaks_is_played_again(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    one_pass()
    (assignment,) = worker.offered()
    computer = worker.start(assignment)
    worker.stop(assignment, computer)
    worker.end_prefix(assignment, ok=False, invalid_reasons=["desktop_lost"])
    prefix = run.prefixes.get()
    assert (prefix.status, prefix.tries) == ("queued", 1)
    one_pass()
    (again,) = worker.offered()
    assert (again.kind, again.epoch) == ("prefix", 2)
    assert again.payload["state"] != assignment.payload["state"]
    worker.play_prefix(again)
    one_pass()
    assert {one.payload["fork"]["state"] for one in worker.offered()} == {again.payload["state"]}


def test_after_its_tries_each_attempt_plays_the_prefix_itself(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    for _ in range(3):
        one_pass()
        (assignment,) = worker.offered()
        computer = worker.start(assignment)
        worker.stop(assignment, computer)
        worker.end_prefix(
            assignment, ok=False, invalid_reasons=["worker_fault"], detail="It cannot be saved."
        )
    prefix = run.prefixes.get()
    assert (prefix.status, prefix.invalid_reasons) == ("error", ["worker_fault"])
    one_pass()
    offered = worker.offered()
    assert [(one.kind, one.payload["fork"]) for one in offered] == [("attempt", None)] * 4
    for one in offered:
        worker.play(one)
    one_pass()
    run = fresh(run)
    assert (run.status, scoring.counts(run)["success"], methods(run)) == ("completed", 4, {"replay"})


def test_saved_by_a_try_that_then_broke_is_let_go(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    one_pass()
    (assignment,) = worker.offered()
    computer = worker.start(assignment)
    worker.save(assignment, computer)
    worker.stop(assignment, computer)
    worker.end_prefix(assignment, ok=False, invalid_reasons=["worker_fault"])
    assert State.objects.get(name=assignment.payload["state"]).status == "leaving"
    prefix = run.prefixes.get()
    assert (prefix.status, prefix.state, prefix.state_digest) == ("queued", None, "")


def test_a_prefix_that_says_it_is_saved_and_saved_nothing_has_broken(
    forking: NewRun, worker: PaperWorker
) -> None:
    run = forking()
    one_pass()
    (assignment,) = worker.offered()
    worker.end_prefix(assignment)
    assert run.prefixes.get().status == "queued"
    assert run.prefixes.get().try_rows.get().invalid_reasons == ["worker_fault"]


def test_only_what_was_asked_for_is_taken_as_the_prefix(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    one_pass()
    (assignment,) = worker.offered()
    computer = worker.start(assignment)
    for name in (f"prefix-{sha256('other')[:20]}", "warm-x", "saved-x"):
        worker.save(assignment, computer, name=name)
    assert not State.objects.exists()
    assert run.prefixes.get().state is None


def test_an_attempts_record_is_no_record_of_a_prefix(forking: NewRun, worker: PaperWorker) -> None:
    forking()
    one_pass()
    (assignment,) = worker.offered()
    applied = worker.say(assignment, {"kind": "attempt_ended", "ok": True})
    assert [problem.code for problem in applied.refused] == ["bad_record"]


def test_an_attempt_that_broke_starts_from_it_again(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    prefix = play_saved(run, worker)
    first, *rest = worker.offered()
    computer = worker.start(first)
    worker.stop(first, computer)
    worker.end(first, ok=False, invalid_reasons=["desktop_lost"])
    for one in rest:
        worker.play_fork(one)
    one_pass()
    assert State.objects.get(pk=prefix.state_id).status == "held"
    (again,) = worker.offered()
    assert again.payload["fork"]["state"] == prefix.state.name
    worker.play_fork(again)
    one_pass()
    assert fresh(run).status == "completed"
    assert State.objects.get(pk=prefix.state_id).status == "leaving"


def test_one_that_does_not_start_from_what_was_saved_plays_the_prefix_on_its_last_try(
    forking: NewRun, worker: PaperWorker
) -> None:
    run = forking()
    play_saved(run, worker)
    unable, *others = worker.offered()
    for one in others:
        worker.play_fork(one)
    for _ in range(2):
        assert unable.payload["fork"]
        worker.end(unable, ok=False, invalid_reasons=["desktop_start_failed"])
        one_pass()
        (unable,) = worker.offered()
    assert unable.payload["fork"] is None
    assert unable.payload["prefix_steps"] == 3
    worker.play(unable)
    one_pass()
    attempts = run.attempts.order_by("tries", "number")
    assert fresh(run).status == "completed"
    assert [(one.tries, one.fork_method, one.outcome) for one in attempts] == [
        *[(1, "live", "success")] * 3,
        (3, "replay", "success"),
    ]


def test_the_last_try_of_one_that_broke_for_another_reason_starts_from_it_too(
    forking: NewRun, worker: PaperWorker
) -> None:
    run = forking()
    play_saved(run, worker)
    broken, *others = worker.offered()
    for one in others:
        worker.play_fork(one)
    for _ in range(2):
        worker.break_down(broken)
        one_pass()
        (broken,) = worker.offered()
    assert broken.payload["fork"]
    assert run.attempts.get(fork_method="live", status="running").tries == 3


def test_no_fork_of_its_parent_is_invalid(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    play_saved(run, worker)
    for _ in range(3):
        for one in worker.offered():
            worker.play_fork(one, differences=["process xeyes is new"])
        one_pass()
    run = fresh(run)
    assert run.status == "completed"
    assert set(run.attempts.values_list("status", "verifier", "outcome")) == {("done", "invalid", None)}
    assert run.attempts.first().invalid_reasons == ["fork_mismatch"]


def test_what_was_saved_is_kept_while_an_attempt_of_its_group_is_to_come(
    forking: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = forking()
    prefix = play_saved(run, worker)
    state = prefix.state
    last, *others = worker.offered()
    for one in others:
        worker.play_fork(one)
    worker.end(last, ok=False, invalid_reasons=["desktop_start_failed"])
    State.objects.update(expires_at=timezone.now() - timedelta(minutes=1))
    assert states.expire() == 0
    with pytest.raises(StateNeeded, match=f"run #{run.number}"):
        let_go(state, actor=Actor.person(owner))
    one_pass()
    worker.play_fork(worker.offered()[0])
    one_pass()
    assert State.objects.get(pk=state.pk).status == "leaving"


def test_cancelling_ends_the_prefix_too(forking: NewRun, worker: PaperWorker, owner: User) -> None:
    run = forking()
    one_pass()
    (assignment,) = worker.offered()
    computer = worker.start(assignment)
    cancel_run(run, actor=Actor.person(owner))
    assignment.refresh_from_db()
    assert (assignment.status, fresh(run).status) == ("stopping", "cancelling")
    worker.stop(assignment, computer)
    worker.end_prefix(assignment, ok=False, stopped=True)
    one_pass()
    run = fresh(run)
    assert (run.status, run.prefixes.get().status) == ("cancelled", "cancelled")
    assert scoring.counts(run)["cancelled"] == 4
    assert run.budget.reserved == 0
    assert receipt(run).left == 0


def test_cancelling_lets_go_what_was_saved(forking: NewRun, worker: PaperWorker, owner: User) -> None:
    run = forking()
    prefix = play_saved(run, worker)
    live = [(one, worker.start(one)) for one in worker.offered()]
    cancel_run(run, actor=Actor.person(owner))
    assert State.objects.get(pk=prefix.state_id).status == "held"
    for one, computer in live:
        worker.stop(one, computer)
        worker.end(one, ok=False, stopped=True)
    one_pass()
    assert fresh(run).status == "cancelled"
    assert State.objects.get(pk=prefix.state_id).status == "leaving"
    assert run.prefixes.get().status == "done"


def test_a_queued_prefix_of_a_run_that_stops_is_cancelled(
    forking: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = forking()
    one_pass()
    (assignment,) = worker.offered()
    worker.end_prefix(assignment, ok=False, invalid_reasons=["desktop_lost"])
    cancel_run(run, actor=Actor.person(owner))
    one_pass()
    assert (fresh(run).status, run.prefixes.get().status) == ("cancelled", "cancelled")


def test_a_prefix_that_money_cut_off_ends_the_run_for_money(forking: NewRun, worker: PaperWorker) -> None:
    TemplateVersion.objects.update(rate_usd_per_hour="0.60")
    run = forking(spend_cap_usd="0.01")
    one_pass()
    (assignment,) = worker.offered()
    computer = worker.start(assignment, seconds_ago=60)
    worker.stop(assignment, computer)
    worker.end_prefix(assignment, ok=False, invalid_reasons=["paid_until_reached"])
    for _ in range(2):
        one_pass()
    run = fresh(run)
    assert (run.status, run.stop_reason) == ("completed", "budget_exceeded")
    assert run.prefixes.get().status == "error"
    assert run.budget.spent <= run.budget.cap


def test_a_prefix_that_has_ended_cannot_change(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    play_saved(run, worker)
    for one in worker.offered():
        worker.play_fork(one)
    one_pass()
    prefix = run.prefixes.get()
    for change in ({"status": "saved"}, {"state_digest": "sha256:0"}, {"steps": 1}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Prefix.objects.filter(pk=prefix.pk).update(**change)
    Prefix.objects.filter(pk=prefix.pk).update(state=None)


def test_a_step_is_of_an_attempt_or_of_a_prefix(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    play_saved(run, worker)
    step = Step.objects.filter(prefix_try__prefix__run=run).first()
    with pytest.raises(IntegrityError), transaction.atomic():
        Step.objects.filter(pk=step.pk).update(prefix_try=None)


def test_prefixes_count_towards_the_runs_parallelism(
    forking: NewRun, worker: PaperWorker, workspace: Workspace
) -> None:
    Workspace.objects.filter(pk=workspace.pk).update(run_parallelism=2)
    forking(tasks=["task-1", "task-2"], parallel_copies=2)
    for _ in range(3):
        one_pass()
    assert [one.kind for one in worker.offered()] == ["prefix", "prefix"]
