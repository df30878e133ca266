"""A desktop's own page: while it lives, once it has ended, and what its buttons get."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from console.actor import Actor
from console.models import User, Workspace
from desktops.actions.views import let_watch, open_view
from desktops.models import Computer, LiveView
from runs.models import Attempt, Run
from tests.factories import (
    AssignmentFactory,
    AttemptTryFactory,
    ComputerFactory,
    StepFactory,
    WorkerFactory,
)

from .stage import a_run, play

pytestmark = pytest.mark.django_db
PAGE = "/w/lab/runs/1/computers/1/"


@pytest.fixture
def run(workspace: Workspace, owner: User) -> Run:
    return a_run(workspace, creator=owner)


@pytest.fixture
def computer(run: Run) -> Computer:
    """c-0001, on which attempt 1 has taken two steps."""
    worker = WorkerFactory(workspace=run.workspace)
    attempt = play(run, finished=0)[0]
    assignment = AssignmentFactory(worker=worker, budget=run.budget, subject=attempt.pk, status="held")
    made: Computer = ComputerFactory(
        assignment=assignment, template_version=run.template_version, group=run.pk
    )
    one = AttemptTryFactory(
        attempt=attempt, assignment=assignment, computer=made, ok=None, ended_at=None, reward=None
    )
    StepFactory.create_batch(2, attempt_try=one)
    Attempt.objects.filter(pk=attempt.pk).update(status="running", computer=made, steps=2, tries=1)
    return made


def test_whoever_may_see_the_run_may_watch(
    computer: Computer, member: User, client_for: Callable[[User], Client]
) -> None:
    client = client_for(member)
    page = client.get(PAGE).content.decode()
    assert "data-watch" in page
    assert "Watching live needs scripts" in page
    assert "Take over" not in page  # a member's own runs only
    reply = client.post(f"{PAGE}view/")
    assert reply.json()["socket"].startswith("/ws/live/")
    assert LiveView.objects.get().user == member
    assert client.post(f"{PAGE}take-over/").status_code == 403
    assert client.get(f"{PAGE}view/").status_code == 405


def test_who_may_cancel_the_run_may_take_over(
    computer: Computer, owner: User, client_for: Callable[[User], Client]
) -> None:
    client = client_for(owner)
    page = client.get(PAGE).content.decode()
    assert "This attempt will not count." in page
    assert client.post(f"{PAGE}take-over/").json()["seconds"] == 30
    assert LiveView.objects.get().drives


def test_a_taken_desktop_says_so_and_is_not_offered_again(
    computer: Computer, owner: User, client_for: Callable[[User], Client]
) -> None:
    Attempt.objects.get(number=1).try_rows.update(invalid_reasons=["human_intervened"])
    client = client_for(owner)
    page = client.get(PAGE).content.decode()
    assert "will have no verdict" in page
    assert "data-take" not in page.replace("data-take-over", "")
    refused = client.post(f"{PAGE}take-over/")
    assert (refused.status_code, "c-0001" in refused.json()["detail"]) == (409, True)


def test_a_desktop_that_has_ended_leads_to_the_replay(
    computer: Computer, owner: User, client_for: Callable[[User], Client]
) -> None:
    Computer.objects.update(stopped_at=timezone.now(), stop_reason="worker_lost")
    client = client_for(owner)
    page = client.get(PAGE).content.decode()
    assert "This desktop has ended: Worker was lost." in page
    assert 'href="/w/lab/runs/1/attempts/1/">Open the replay' in page
    assert "data-watch" not in page
    assert client.post(f"{PAGE}view/").status_code == 409


def test_strangers_and_other_runs_find_nothing(
    computer: Computer,
    workspace: Workspace,
    owner: User,
    outsider: User,
    other_workspace: Workspace,
    client_for: Callable[[User], Client],
) -> None:
    for address in (PAGE, f"{PAGE}view/", f"{PAGE}take-over/"):
        send = "get" if address == PAGE else "post"
        assert getattr(client_for(outsider), send)(address).status_code == 404
        a_stranger_s = address.replace("/w/lab/", "/w/elsewhere/")
        assert getattr(client_for(outsider), send)(a_stranger_s).status_code == 404
        other = a_run(workspace)
        of_another_run = address.replace("/runs/1/", f"/runs/{other.number}/")
        assert getattr(client_for(owner), send)(of_another_run).status_code == 404
    assert not LiveView.objects.exists()


def test_it_names_who_watches(
    computer: Computer, owner: User, member: User, client_for: Callable[[User], Client]
) -> None:
    open_view(let_watch(computer, actor=Actor.person(member)), member)
    open_view(let_watch(computer, drives=True, actor=Actor.person(owner)), owner)
    page = client_for(owner).get(PAGE).content.decode()
    assert "2 people" in page
    assert "Mia Member" in page
    assert "Drives" in page


def test_its_questions_do_not_grow_with_who_watches(
    computer: Computer,
    owner: User,
    member: User,
    client_for: Callable[[User], Client],
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    client = client_for(owner)
    client.get(PAGE)
    with CaptureQueriesContext(connection) as counted:
        client.get(PAGE)
    for user in (owner, member, owner):
        open_view(let_watch(computer, actor=Actor.person(user)), user)
    with django_assert_num_queries(len(counted)):
        client.get(PAGE)


def test_held_desktops_and_playing_attempts_lead_to_it(
    computer: Computer, owner: User, client_for: Callable[[User], Client]
) -> None:
    client = client_for(owner)
    for page in ("/w/lab/runs/1/computers/", "/w/lab/runs/1/attempts/1/"):
        assert f'href="{PAGE}"' in client.get(page).content.decode()
