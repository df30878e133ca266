"""Taking a desktop over: who may, and that its attempt ends without a verdict and is not played again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from console.actor import Actor
from console.models import AuditEntry, User
from desktops.actions.lease import lose
from desktops.models import Assignment, Computer, LiveView
from desktops.protocol.messages import LEASE_SECONDS
from runs.actions.live import CannotTakeOver, MayNotTakeOver, take_over
from runs.models import Attempt, Event, Run
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db
TAKEN = {"kind": "taken_over", "by": "Olga Owner"}


@pytest.fixture
def playing(new_run: Callable[..., Run], worker: PaperWorker) -> Assignment:
    """An attempt that has taken a step, on a desktop that lives."""
    new_run(tasks=["task-1"])
    one_pass()
    (assignment,) = worker.offered()
    worker.beat()
    worker.start(assignment)
    worker.step(assignment)
    return assignment


def attempt_of(assignment: Assignment) -> Attempt:
    return Attempt.objects.get(pk=assignment.subject)


def test_the_attempt_is_invalid_and_not_played_again(playing: Assignment, worker: PaperWorker) -> None:
    worker.say(playing, dict(TAKEN))
    attempt = attempt_of(playing)
    assert attempt.status == "running"  # the person has the desktop, and it costs
    told = Event.objects.get(run=attempt.run, kind="desktop_taken_over")
    assert (told.data["by"], told.data["computer"]) == ("Olga Owner", attempt.computer.label)
    worker.stop(playing, str(attempt.computer_id))
    worker.end(playing, ok=False, invalid_reasons=["human_intervened"])
    one_pass()
    attempt.refresh_from_db()
    assert (attempt.status, attempt.verifier, attempt.outcome) == ("done", "invalid", None)
    assert (attempt.invalid_reasons, attempt.tries) == (["human_intervened"], 1)
    attempt.run.refresh_from_db()
    assert (attempt.run.status, attempt.run.invalid) == ("completed", 1)


def test_a_worker_that_is_lost_meanwhile_changes_nothing_about_that(
    playing: Assignment, worker: PaperWorker
) -> None:
    worker.say(playing, dict(TAKEN))
    past = timezone.now() - timedelta(seconds=LEASE_SECONDS + 1)
    Assignment.objects.filter(pk=playing.pk).update(lease_until=past)
    assert lose(playing)
    attempt = attempt_of(playing)
    assert (attempt.verifier, attempt.invalid_reasons) == ("invalid", ["human_intervened"])


def test_a_worker_that_was_started_again_meanwhile_changes_nothing_either(
    playing: Assignment, worker: PaperWorker
) -> None:
    worker.say(playing, dict(TAKEN))
    worker.end(playing, ok=False, invalid_reasons=["worker_stopped"])
    attempt = attempt_of(playing)
    assert (attempt.verifier, attempt.invalid_reasons) == ("invalid", ["human_intervened"])


def test_whoever_may_cancel_the_run_gets_a_ticket(playing: Assignment, owner: User) -> None:
    attempt = attempt_of(playing)
    assert take_over(attempt.run, attempt.computer, actor=Actor.person(owner))
    view = LiveView.objects.get()
    assert (view.user, view.computer, view.drives) == (owner, attempt.computer, True)
    assert AuditEntry.objects.get(action="computer.taken_over").user == owner
    attempt.refresh_from_db()
    assert attempt.invalid_reasons == []  # not before the worker has handed it over


def test_others_do_not(playing: Assignment, member: User, outsider: User) -> None:
    attempt = attempt_of(playing)
    for user in (member, outsider):
        with pytest.raises(MayNotTakeOver):
            take_over(attempt.run, attempt.computer, actor=Actor.person(user))
    assert not LiveView.objects.exists()


def test_what_is_being_judged_or_gone_or_taken_cannot_be_taken(
    playing: Assignment, worker: PaperWorker, owner: User
) -> None:
    attempt = attempt_of(playing)
    run, computer, actor = attempt.run, attempt.computer, Actor.person(owner)
    worker.say(playing, {"kind": "verifying"})
    with pytest.raises(CannotTakeOver):
        take_over(run, computer, actor=actor)
    Attempt.objects.filter(pk=attempt.pk).update(status="running")
    Computer.objects.filter(pk=computer.pk).update(stopped_at=timezone.now())
    with pytest.raises(CannotTakeOver):
        take_over(run, computer, actor=actor)
    Computer.objects.filter(pk=computer.pk).update(stopped_at=None)
    attempt.try_rows.update(invalid_reasons=["human_intervened"])
    with pytest.raises(CannotTakeOver):
        take_over(run, computer, actor=actor)
