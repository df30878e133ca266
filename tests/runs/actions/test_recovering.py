"""A run that nobody can go on with: it waits for a while, then ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from console import presence
from console.actor import Actor
from console.models import User, Workspace
from desktops.actions.pause import pause_worker, resume_worker
from desktops.models import Assignment, Worker
from desktops.protocol.messages import LEASE_SECONDS
from runs.actions import advance
from runs.actions.stop import cancel_run
from runs.models import Run
from runs.supervisor import look, one_pass
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db


@pytest.fixture
def deserted(new_run: Callable[..., Run], worker: PaperWorker, owner: User) -> Run:
    """A run whose only worker was paused after its first attempt: the second one is queued."""
    worker.slots = 1
    worker.worker = worker.connect()
    run = new_run()
    one_pass()
    (first,) = worker.offered()
    pause_worker(worker.worker, actor=Actor.person(owner))
    worker.play(first)
    one_pass()
    run.refresh_from_db()
    return run


def test_a_run_waits_for_a_paused_worker_and_goes_on_with_it(
    deserted: Run, worker: PaperWorker, owner: User
) -> None:
    assert deserted.status == "recovering"
    one_pass()
    one_pass()
    deserted.refresh_from_db()
    assert (deserted.status, deserted.stop_reason) == ("recovering", "")

    resume_worker(worker.worker, actor=Actor.person(owner))
    one_pass()
    worker.play(worker.offered()[0])
    one_pass()
    deserted.refresh_from_db()
    assert (deserted.status, deserted.success) == ("completed", 2)


def test_a_run_that_nobody_comes_back_to_ends_as_worker_lost(
    deserted: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advance, "NO_WORKER", timedelta(0))
    one_pass()
    deserted.refresh_from_db()
    assert (deserted.status, deserted.stop_reason) == ("failed", "worker_lost")
    assert (deserted.done, deserted.cancelled) == (1, 1)


def test_a_run_is_not_lost_while_its_paused_worker_is_there(
    deserted: Run, worker: PaperWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advance, "NO_WORKER", timedelta(0))
    Worker.objects.update(last_seen_at=timezone.now() + timedelta(seconds=20))  # it is heard of all the while
    one_pass()
    deserted.refresh_from_db()
    assert (deserted.status, deserted.stop_reason) == ("recovering", "")


@pytest.fixture
def playing(new_run: Callable[..., Run], worker: PaperWorker) -> Run:
    """Its one attempt has a desktop that is ready."""
    run = new_run(tasks=["task-1"])
    one_pass()
    worker.beat()
    worker.start(worker.offered()[0])
    one_pass()
    return fresh(run)


def fresh(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def go_quiet(worker: PaperWorker) -> None:
    past = timezone.now() - timedelta(seconds=1)
    Worker.objects.filter(pk=worker.worker.pk).update(
        connected=False, last_seen_at=past - timedelta(seconds=LEASE_SECONDS)
    )
    Assignment.objects.filter(worker=worker.worker).update(lease_until=past)


def test_what_a_quiet_worker_plays_is_left_to_it_while_nobody_else_is_free(
    playing: Run, worker: PaperWorker
) -> None:
    assert playing.status == "running"
    (assignment,) = worker.offered()
    go_quiet(worker)
    one_pass()
    assert fresh(playing).status == "recovering"

    worker.worker = worker.connect(held=[assignment])
    one_pass()
    assert fresh(playing).status == "running"
    worker.step(assignment)
    worker.verdict(assignment, 1.0)
    worker.end(assignment)
    assert playing.attempts.get().verifier == "valid"
    assert playing.attempts.get().tries == 1


def test_a_report_after_the_last_heartbeat_is_no_return(playing: Run, worker: PaperWorker) -> None:
    now = timezone.now()
    Worker.objects.filter(pk=worker.worker.pk).update(last_seen_at=now - timedelta(seconds=3))
    Assignment.objects.filter(worker=worker.worker).update(lease_until=now - timedelta(seconds=1))
    one_pass()
    assert (fresh(playing).status, playing.attempts.get().tries) == ("recovering", 1)


def test_what_a_quiet_worker_plays_begins_anew_with_another_that_is_free(
    playing: Run, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    other = PaperWorker(workspace, owner, name="other")
    (late,) = worker.offered()
    go_quiet(worker)
    one_pass()
    assert fresh(playing).status == "recovering"
    (again,) = other.offered()
    worker.worker = worker.connect(held=[late])
    worker.verdict(late, 1.0)
    assert playing.attempts.get().verifier == "not_checked"
    other.start(again)
    one_pass()
    assert fresh(playing).status == "running"
    other.verdict(again, 0.0)
    assert playing.attempts.get().reward == 0.0


def test_work_that_its_worker_has_come_back_without_is_lost(playing: Run, worker: PaperWorker) -> None:
    go_quiet(worker)
    worker.worker = worker.connect()
    one_pass()
    assert playing.attempts.get().tries == 2


def test_silence_is_nobodys_fault_while_no_console_listens(
    playing: Run, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    PaperWorker(workspace, owner, name="other")
    go_quiet(worker)
    assert not presence.anybody()
    look()
    assert (fresh(playing).status, playing.attempts.get().tries) == ("running", 1)


def test_a_try_that_is_lost_while_its_run_stops_is_closed(
    playing: Run, worker: PaperWorker, owner: User
) -> None:
    cancel_run(playing, actor=Actor.person(owner))
    go_quiet(worker)
    one_pass()
    (attempt,) = playing.attempts.all()
    assert attempt.status == "cancelled"
    assert [(one.ok, one.ended_at is not None) for one in attempt.try_rows.all()] == [(False, True)]
