"""Taking a worker that has left for good off the list."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from console.actions.workspaces import NotAllowed
from console.actor import Actor
from console.models import AuditEntry, Scope, Token, User, Workspace
from desktops.actions import report
from desktops.actions.removal import StillHere, remove_worker
from desktops.models import State, Worker
from desktops.protocol import messages
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker(workspace: Workspace) -> Worker:
    return factories.WorkerFactory(workspace=workspace, name="yard-old", connected=False)


def test_a_worker_that_left_is_removed_once_and_the_audit_log_says_by_whom(
    worker: Worker, owner: User
) -> None:
    remove_worker(worker, actor=Actor.person(owner))
    remove_worker(worker, actor=Actor.person(owner))
    assert not Worker.objects.listed().exists()
    (entry,) = AuditEntry.objects.filter(action="worker.removed")
    assert (entry.subject, entry.user) == ("worker yard-old", owner)


def test_a_member_may_not_remove_one(worker: Worker, member: User) -> None:
    with pytest.raises(NotAllowed):
        remove_worker(worker, actor=Actor.person(member))


def test_one_that_is_connected_stays(worker: Worker, owner: User) -> None:
    Worker.objects.update(connected=True)
    with pytest.raises(StillHere, match="Stop it on its machine first"):
        remove_worker(worker, actor=Actor.person(owner))


def test_one_that_holds_a_desktop_stays(worker: Worker, owner: User) -> None:
    factories.ComputerFactory(assignment=factories.AssignmentFactory(worker=worker, status="held"))
    with pytest.raises(StillHere, match="holds 1 desktop still"):
        remove_worker(worker, actor=Actor.person(owner))


def test_one_that_was_given_work_and_has_not_begun_it_stays(worker: Worker, owner: User) -> None:
    factories.AssignmentFactory(worker=worker, status="offered")
    with pytest.raises(StillHere, match="holds work still"):
        remove_worker(worker, actor=Actor.person(owner))


def test_one_with_what_a_person_saved_stays_until_that_is_deleted(worker: Worker, owner: User) -> None:
    state = factories.StateFactory(worker=worker, origin=State.Origin.SAVED)
    with pytest.raises(StillHere, match="has 1 saved desktop on its disk"):
        remove_worker(worker, actor=Actor.person(owner))
    State.objects.filter(pk=state.pk).update(status=State.Status.LEAVING)
    remove_worker(worker, actor=Actor.person(owner))
    assert Worker.objects.get().removed_at


def test_what_can_be_made_again_goes_with_it(worker: Worker, owner: User) -> None:
    factories.StateFactory(worker=worker, origin=State.Origin.WARM)
    remove_worker(worker, actor=Actor.person(owner))
    assert State.objects.get().status == State.Status.LEAVING


def test_one_that_connects_again_is_back(worker: Worker, owner: User, secret_for: Callable[..., str]) -> None:
    remove_worker(worker, actor=Actor.person(owner))
    secret_for(Scope.WORKERS_CONNECT)
    hello = messages.Hello(version="1", instance=str(uuid.uuid4()), name="yard-old", engine="fake", slots=1)
    report.connect(token=Token.objects.get(), hello=hello, connection=uuid.uuid4())
    assert Worker.objects.listed().get() == worker


def test_one_that_was_only_silent_is_back_with_its_next_word(worker: Worker, owner: User) -> None:
    Worker.objects.update(connection=(said := uuid.uuid4()))
    remove_worker(worker, actor=Actor.person(owner))
    report.heartbeat(worker=worker, connection=said, beat=messages.Heartbeat())
    assert Worker.objects.listed().get() == worker


def test_one_that_says_it_stops_has_left_until_it_says_more(worker: Worker) -> None:
    said = uuid.uuid4()
    Worker.objects.update(connection=said)
    report.heartbeat(worker=worker, connection=said, beat=messages.Heartbeat(leaving=True))
    assert Worker.objects.get().left_at
    report.heartbeat(worker=worker, connection=said, beat=messages.Heartbeat())
    assert Worker.objects.get().left_at is None
