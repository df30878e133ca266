"""What may happen to a computer at the same time."""

from __future__ import annotations

import threading
import time

import pytest
from django.db import connection, transaction

from console.actor import Actor
from console.models import User, Workspace
from desktops.actions.holds import close_computer, end, locked, look_after
from desktops.models import Assignment, Hold, State
from tests.desktops.hands import assignment_of, opened
from tests.factories import StateFactory
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db(transaction=True)


def test_one_that_is_closed_while_it_is_handed_out_is_ended_by_its_worker(
    workspace: Workspace, owner: User
) -> None:
    PaperWorker(workspace, owner)
    hold = opened(workspace, owner)
    closing = threading.Thread(target=close_elsewhere, args=(hold, owner))
    with transaction.atomic():
        look_after(hold.pk)
        closing.start()
        while not somebody_waits():
            time.sleep(0.01)
    closing.join()
    hold.refresh_from_db()
    assert (hold.status, hold.stop_reason) == ("closing", "closed_by_user")
    assert assignment_of(hold).status == Assignment.Status.STOPPING


def test_one_that_is_over_is_not_ended_again(workspace: Workspace, owner: User) -> None:
    hold = opened(workspace, owner)
    close_computer(hold, actor=Actor.person(owner))
    with transaction.atomic():
        over = locked(hold.pk)
        end(over, at=over.created_at, reason=Hold.Reason.WORKER_LOST)
    hold.refresh_from_db()
    assert (hold.status, hold.stop_reason) == ("closed", "closed_by_user")


def test_one_whose_saved_desktop_is_let_go_meanwhile_says_so(workspace: Workspace, owner: User) -> None:
    paper = PaperWorker(workspace, owner)
    hold = opened(workspace, owner)
    state = StateFactory(worker=paper.worker, origin=State.Origin.SAVED)
    Hold.objects.filter(pk=hold.pk).update(state=state)
    looking = threading.Thread(target=look_elsewhere, args=(hold,))
    with transaction.atomic():
        State.objects.select_for_update(no_key=True).get(pk=state.pk)
        looking.start()
        while not somebody_waits():
            time.sleep(0.01)
        State.objects.filter(pk=state.pk).update(status=State.Status.LEAVING)
    looking.join()
    hold.refresh_from_db()
    assert (hold.status, hold.stop_reason) == ("failed", "start_failed")
    assert "has been deleted" in hold.detail


def look_elsewhere(hold: Hold) -> None:
    try:
        look_after(hold.pk)
    finally:
        connection.close()


def close_elsewhere(hold: Hold, person: User) -> None:
    try:
        close_computer(hold, actor=Actor.person(person))
    finally:
        connection.close()


def somebody_waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return bool(cursor.fetchone()[0])
