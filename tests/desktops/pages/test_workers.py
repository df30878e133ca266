"""The Workers pages: what each host can do and holds, pausing it, and how to connect the first one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.models import User, Workspace
from desktops.models import Worker
from tests import factories

ClientFor = Callable[[User], Client]


@pytest.fixture
def worker(workspace: Workspace) -> Worker:
    return factories.WorkerFactory(
        workspace=workspace, name="yard-a", slots=3, cannot_fork_because="It has no runtime for it."
    )


def _list(client: Client, workspace: Workspace) -> str:
    reply = client.get(reverse("worker-list", args=[workspace.slug]))
    assert reply.status_code == 200
    return str(reply.content.decode())


def test_without_a_worker_the_page_says_how_to_connect_one(
    client_for: ClientFor, owner: User, workspace: Workspace, settings: object
) -> None:
    settings.PUBLIC_URL = "https://desk.example.test"  # type: ignore[attr-defined]
    page = _list(client_for(owner), workspace)
    assert "No worker has connected yet" in page
    assert "make worker" in page
    assert "DESKYARD_URL=https://desk.example.test" in page
    assert "?scope=workers:connect" in page


def test_a_member_is_sent_to_an_admin_for_the_worker_s_token(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    assert "Ask an admin" in _list(client_for(member), workspace)


def test_slots_show_what_is_held_and_what_is_free(
    client_for: ClientFor, member: User, workspace: Workspace, worker: Worker
) -> None:
    assignment = factories.AssignmentFactory(worker=worker, status="held")
    computer = factories.ComputerFactory(assignment=assignment)
    page = _list(client_for(member), workspace)
    assert computer.label in page
    assert page.count('class="free"') == 2
    assert "It has no runtime for it." in page


def test_a_silent_worker_is_listed_as_not_connected(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    silent = timezone.now() - timedelta(minutes=5)
    factories.WorkerFactory(workspace=workspace, name="yard-lost", last_seen_at=silent)
    assert "Not connected" in _list(client_for(member), workspace)


def test_a_worker_s_page_shows_what_it_played_lately(
    client_for: ClientFor, member: User, workspace: Workspace, worker: Worker
) -> None:
    assignment = factories.AssignmentFactory(worker=worker)
    gone = factories.ComputerFactory(
        assignment=assignment, stopped_at=timezone.now(), stop_reason="the attempt ended"
    )
    page = client_for(member).get(reverse("worker", args=[workspace.slug, worker.pk])).content.decode()
    assert gone.label in page
    assert "the attempt ended" in page
    assert "Pause" not in page


def test_an_admin_pauses_and_resumes(
    client_for: ClientFor, admin: User, workspace: Workspace, worker: Worker
) -> None:
    client = client_for(admin)
    assert client.post(reverse("worker-pause", args=[workspace.slug, worker.pk])).status_code == 302
    worker.refresh_from_db()
    assert worker.paused
    assert (
        "takes nothing new"
        in client.get(reverse("worker", args=[workspace.slug, worker.pk])).content.decode()
    )
    client.post(reverse("worker-resume", args=[workspace.slug, worker.pk]))
    worker.refresh_from_db()
    assert not worker.paused


def test_a_member_cannot_pause(
    client_for: ClientFor, member: User, workspace: Workspace, worker: Worker
) -> None:
    assert (
        client_for(member).post(reverse("worker-pause", args=[workspace.slug, worker.pk])).status_code == 403
    )
    worker.refresh_from_db()
    assert not worker.paused


def test_an_outsider_and_another_workspace_find_nothing(
    client_for: ClientFor,
    outsider: User,
    workspace: Workspace,
    other_workspace: Workspace,
    worker: Worker,
) -> None:
    client = client_for(outsider)
    for slug in (workspace.slug, other_workspace.slug):
        assert client.get(reverse("worker", args=[slug, worker.pk])).status_code == 404
        assert client.post(reverse("worker-pause", args=[slug, worker.pk])).status_code == 404
    assert client.get(reverse("worker-list", args=[workspace.slug])).status_code == 404


def test_a_visit_cannot_pause(
    client_for: ClientFor, owner: User, workspace: Workspace, worker: Worker
) -> None:
    assert client_for(owner).get(reverse("worker-pause", args=[workspace.slug, worker.pk])).status_code == 405
    assert client_for(owner).post(reverse("worker-list", args=[workspace.slug])).status_code == 405
