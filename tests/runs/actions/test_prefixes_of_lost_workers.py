"""A forking run whose worker is lost or paused: what it saved is waited for as long as it may come back, and else each
attempt plays the prefix itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from console.models import User, Workspace
from desktops.actions import report
from desktops.models import Assignment, Computer, State, Worker
from runs.models import Run
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

NewRun = Callable[..., Run]


@pytest.fixture
def worker(forking_worker: PaperWorker) -> PaperWorker:
    return forking_worker


def fresh(run: Run) -> Run:
    return Run.objects.select_related("budget", "workspace").get(pk=run.pk)


def methods(run: Run) -> set[str]:
    return set(run.attempts.values_list("fork_method", flat=True))


def test_what_the_worker_has_lost_is_played_again(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    one_pass()
    worker.play_prefix(worker.offered()[0])
    State.objects.update(status="gone")
    one_pass()
    offered = worker.offered()
    assert [one.payload["fork"] for one in offered] == [None] * 4
    for one in offered:
        worker.play(one)
    one_pass()
    assert (fresh(run).status, methods(run)) == ("completed", {"replay"})


def test_attempts_of_a_lost_worker_play_the_prefix_elsewhere(
    forking: NewRun, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    run = forking()
    one_pass()
    worker.play_prefix(worker.offered()[0])
    elsewhere = PaperWorker(workspace, owner, name="other", slots=8, can_fork=True)
    silent(worker)
    one_pass()
    offered = elsewhere.offered()
    assert [(one.kind, one.payload["fork"]) for one in offered] == [("attempt", None)] * 4
    for one in offered:
        elsewhere.play(one)
    one_pass()
    assert (fresh(run).status, methods(run)) == ("completed", {"replay"})


def test_a_worker_that_was_cut_off_just_now_is_waited_for(
    forking: NewRun, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    forking()
    one_pass()
    worker.play_prefix(worker.offered()[0])
    elsewhere = PaperWorker(workspace, owner, name="other", slots=8, can_fork=True)
    report.disconnect(worker=worker.worker, connection=worker.connection)
    one_pass()
    assert elsewhere.offered() == []
    worker.connect()
    one_pass()
    assert len(worker.offered()) == 4


def test_a_paused_worker_is_not_waited_for(
    forking: NewRun, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    forking()
    one_pass()
    worker.play_prefix(worker.offered()[0])
    elsewhere = PaperWorker(workspace, owner, name="other", slots=8)
    Worker.objects.filter(pk=worker.worker.pk).update(paused=True)
    one_pass()
    assert [one.payload["fork"] for one in elsewhere.offered()] == [None] * 4


def test_a_prefix_whose_worker_is_lost_is_played_by_another(
    forking: NewRun, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    run = forking()
    one_pass()
    (assignment,) = worker.offered()
    worker.start(assignment)
    elsewhere = PaperWorker(workspace, owner, name="other", slots=8, can_fork=True)
    silent(worker)
    lose(assignment)
    one_pass()
    (again,) = elsewhere.offered()
    assert (again.kind, again.epoch) == ("prefix", 2)
    assert fresh(run).status == "recovering"
    elsewhere.play_prefix(again)
    one_pass()
    assert len(elsewhere.offered_of("attempt")) == 4
    worker.connect()
    late = worker.save(assignment, worker_computer(assignment))
    assert not State.objects.filter(digest=late).exists()


def test_with_nobody_left_who_can_save_it_each_attempt_plays_the_prefix(
    forking: NewRun, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    run = forking()
    one_pass()
    (assignment,) = worker.offered()
    plain = PaperWorker(workspace, owner, name="plain", slots=8)
    silent(worker)
    lose(assignment)
    one_pass()
    assert [one.payload["fork"] for one in plain.offered()] == [None] * 4
    assert run.prefixes.get().status == "error"


def test_a_worker_lost_after_it_had_saved_keeps_it(forking: NewRun, worker: PaperWorker) -> None:
    run = forking()
    one_pass()
    (assignment,) = worker.offered()
    computer = worker.start(assignment)
    worker.step(assignment, 1)
    worker.save(assignment, computer)
    silent(worker)
    lose(assignment)
    assert run.prefixes.get().status == "saved"
    worker.connect()
    one_pass()
    assert [one.payload["fork"]["state"] for one in worker.offered()] == [assignment.payload["state"]] * 4


def silent(worker: PaperWorker) -> None:
    """Nothing was heard of it for longer than a lease."""
    Worker.objects.filter(pk=worker.worker.pk).update(last_seen_at=timezone.now() - timedelta(minutes=2))


def lose(assignment: Assignment) -> None:
    past = timezone.now() - timedelta(seconds=1)
    Assignment.objects.filter(pk=assignment.pk).update(lease_until=past, paid_until=past, told_until=past)
    one_pass()


def worker_computer(assignment: Assignment) -> str:
    return str(Computer.objects.filter(assignment=assignment).values_list("pk", flat=True).get())
