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
    assert "export DESKYARD_WORKER_NAME=" in page


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


def test_desktops_that_stand_ready_are_told_while_their_worker_is_there(
    client_for: ClientFor, member: User, workspace: Workspace, worker: Worker
) -> None:
    told = f'<dd id="ready-{worker.pk}">2 '
    Worker.objects.update(ready_desktops=2)
    assert told not in _list(client_for(member), workspace), "it can keep none"
    Worker.objects.update(can_fork=True)
    assert told in _list(client_for(member), workspace)
    Worker.objects.update(connected=False)
    assert told not in _list(client_for(member), workspace)


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


def test_a_lost_worker_s_page_says_what_to_do(
    client_for: ClientFor, member: User, workspace: Workspace, worker: Worker
) -> None:
    factories.StateFactory(worker=worker)
    address = reverse("worker", args=[workspace.slug, worker.pk])
    assert "To have it back" not in client_for(member).get(address).content.decode()
    Worker.objects.update(last_seen_at=timezone.now() - timedelta(minutes=5))
    page = client_for(member).get(address).content.decode()
    assert "To have it back" in page
    assert "The 1 desktop it has saved stays on its disk" in page


def test_what_a_desktop_is_for_is_named(
    client_for: ClientFor, member: User, workspace: Workspace, worker: Worker, material: object
) -> None:
    attempt = factories.AttemptFactory(run=factories.RunFactory(workspace=workspace, status="running"))
    assignment = factories.AssignmentFactory(worker=worker, status="held", subject=attempt.pk)
    factories.ComputerFactory(assignment=assignment)
    page = client_for(member).get(reverse("worker", args=[workspace.slug, worker.pk])).content.decode()
    assert f"Run #{attempt.run.number}, attempt {attempt.number}" in page


def test_saved_desktops_are_measured_against_their_bound(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    factories.WorkerFactory(
        workspace=workspace, can_fork=True, states_bytes=3_200_000_000, states_limit_mb=20480
    )
    page = _list(client_for(member), workspace)
    assert "3.2 GB</a> of at most 20 GB" in page
    assert "A real save and restore worked" in page


def test_several_builds_of_a_version_are_one_line_with_the_published_one_s_digest(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    version = factories.TemplateVersionFactory(workspace=workspace)
    other = f"sha256:{factories.sha256('older')}"
    images = [{"name": "basic", "version": 1, "digest": digest} for digest in (other, version.digest, other)]
    factories.WorkerFactory(workspace=workspace, images=images)
    page = _list(client_for(member), workspace)
    assert page.count(">basic@1</a>") == 1
    assert version.digest in page
    assert other not in page
    assert "and 1 other build<" in page


def test_images_of_somebody_elses_templates_on_the_same_engine_are_not_shown(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    factories.TemplateVersionFactory(workspace=workspace)
    digest = f"sha256:{factories.sha256('theirs')}"
    factories.WorkerFactory(
        workspace=workspace, images=[{"name": "secret-plan", "version": 1, "digest": digest}]
    )
    assert "secret-plan" not in _list(client_for(member), workspace)


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


def test_one_that_was_stopped_in_order_has_left_and_is_not_lost(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    now = timezone.now()
    factories.WorkerFactory(workspace=workspace, connected=False, left_at=now)
    page = _list(client_for(member), workspace)
    assert "Left" in page
    assert "Lost" not in page


def test_an_admin_removes_one_that_left_and_its_page_stays(
    client_for: ClientFor, admin: User, workspace: Workspace, worker: Worker
) -> None:
    Worker.objects.update(connected=False)
    client, address = client_for(admin), reverse("worker-remove", args=[workspace.slug, worker.pk])
    assert "Remove yard-a?" in client.get(address).content.decode()
    assert "yard-a is removed." in client.post(address, follow=True).content.decode()
    assert "yard-a" not in _list(client, workspace)
    page = client.get(reverse("worker", args=[workspace.slug, worker.pk])).content.decode()
    assert "It was removed" in page
    assert "Remove…" not in page


def test_one_that_is_connected_is_not_removed_and_the_page_says_why(
    client_for: ClientFor, admin: User, workspace: Workspace, worker: Worker
) -> None:
    address = reverse("worker-remove", args=[workspace.slug, worker.pk])
    page = client_for(admin).post(address, follow=True).content.decode()
    assert "Stop it on its machine first." in page
    assert Worker.objects.get().removed_at is None
