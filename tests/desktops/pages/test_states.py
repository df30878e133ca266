"""Saved desktops: the list, one of them, deleting it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.models import User, Workspace
from desktops.models import State, Worker
from tests.factories import (
    AssignmentFactory,
    AttemptFactory,
    ComputerFactory,
    RunFactory,
    StateFactory,
    WorkerFactory,
    sha256,
)

ClientFor = Callable[[User], Client]


@pytest.fixture
def host(workspace: Workspace) -> Worker:
    return WorkerFactory(workspace=workspace, name="yard-a", can_fork=True)


@pytest.fixture
def state(host: Worker) -> State:
    return StateFactory(worker=host, label="Run #7, rename-folder")


def page(client: Client, name: str, workspace: Workspace, *args: Any, query: str = "") -> str:
    reply = client.get(reverse(name, args=[workspace.slug, *args]) + query)
    assert reply.status_code == 200
    return str(reply.content.decode())


class TestTheList:
    @pytest.mark.parametrize(
        ("worker", "says"),
        [
            (None, "Connect one first"),
            ({"can_fork": False}, "No connected worker can save a live desktop"),
            ({"can_fork": True}, "The next run fills this page"),
        ],
        ids=["no worker", "none can", "one can"],
    )
    def test_empty_it_says_what_to_do_next(
        self,
        client_for: ClientFor,
        member: User,
        workspace: Workspace,
        worker: dict[str, Any] | None,
        says: str,
    ) -> None:
        if worker is not None:
            WorkerFactory(workspace=workspace, **worker)
        assert says in page(client_for(member), "state-list", workspace)

    def test_it_shows_what_is_kept_and_on_request_what_is_gone(
        self, client_for: ClientFor, member: User, workspace: Workspace, state: State
    ) -> None:
        StateFactory(worker=state.worker, origin="warm", label="Ready desktop of basic@1", status="gone")
        client = client_for(member)
        shown = page(client, "state-list", workspace)
        assert state.label in shown
        assert "200.0 MB" in shown
        assert "Ready desktop of basic@1" not in shown
        for query in ("?status=gone", "?status=any", "?origin=warm&status=any"):
            assert "Ready desktop of basic@1" in page(client, "state-list", workspace, query=query)
        assert "Clear the filters" in page(client, "state-list", workspace, query="?worker=nobody")

    def test_its_pages_go_there_and_back(
        self, client_for: ClientFor, member: User, workspace: Workspace, host: Worker
    ) -> None:
        moment = timezone.now()
        for n in range(120):
            StateFactory(worker=host, label=f"number {n:03}.", made_at=moment - timedelta(seconds=n // 40))
        client, seen, reply = client_for(member), [], None
        address = reverse("state-list", args=[workspace.slug])
        while reply is None or reply.context["page"].older:
            query = reply.context["page"].older if reply else ""
            reply = client.get(address + query)
            seen.append([row.label for row in reply.context["page"].rows])
        assert [len(rows) for rows in seen] == [50, 50, 20]
        assert len({label for rows in seen for label in rows}) == 120
        back = client.get(address + reply.context["page"].newer)
        assert [row.label for row in back.context["page"].rows] == seen[1]
        front = client.get(address + back.context["page"].newer)
        assert [row.label for row in front.context["page"].rows] == seen[0]
        assert not front.context["page"].newer

    @pytest.mark.parametrize(
        "query", ["?before=x", "?after=2026-01-01~x", "?before=2026-01-01T00:00:00~" + "0" * 32]
    )
    def test_a_mark_of_no_meaning_is_the_first_page(
        self, client_for: ClientFor, member: User, workspace: Workspace, state: State, query: str
    ) -> None:
        assert state.label in page(client_for(member), "state-list", workspace, query=query)

    def test_a_long_one_costs_what_a_short_one_does(
        self,
        client_for: ClientFor,
        member: User,
        workspace: Workspace,
        state: State,
        django_assert_max_num_queries: Any,
    ) -> None:
        client = client_for(member)
        page(client, "state-list", workspace)
        for count in (1, 30):
            StateFactory.create_batch(count, worker=state.worker)
            with django_assert_max_num_queries(12):
                page(client, "state-list", workspace)


class TestOne:
    def test_it_says_where_it_came_from_and_what_came_of_it(
        self, client_for: ClientFor, member: User, workspace: Workspace, host: Worker, material: Any
    ) -> None:
        attempt = AttemptFactory(run=RunFactory(workspace=workspace, status="running"))
        computer = ComputerFactory(assignment=AssignmentFactory(worker=host, subject=attempt.pk))
        warm = StateFactory(worker=host, origin="warm", label="Ready desktop of basic@1", status="gone")
        setup = StateFactory(worker=host, origin="setup", label="After setup of rename-folder", parent=warm)
        state = StateFactory(
            worker=host,
            parent=setup,
            computer=computer,
            screenshot=sha256("screen"),
            attestation={
                "screenshot": sha256("screen"),
                "processes": ["xterm", "Xvnc"],
                "files": sha256("f"),
            },
        )
        child = StateFactory(worker=host, parent=state, label="Saved from it")
        shown = page(client_for(member), "state", workspace, state.pk)
        assert reverse("attempt", args=[workspace.slug, attempt.run.number, attempt.number]) in shown
        assert f"Run #{attempt.run.number}, attempt {attempt.number}" in shown
        assert shown.index(setup.label) < shown.index(warm.label)
        assert child.label in shown
        assert sha256("screen") in shown
        assert "xterm, Xvnc" in shown

    def test_deep_chains_cost_one_query(
        self,
        client_for: ClientFor,
        member: User,
        workspace: Workspace,
        host: Worker,
        django_assert_max_num_queries: Any,
    ) -> None:
        state = StateFactory(worker=host, label="generation 0.")
        for n in range(1, 9):
            state = StateFactory(worker=host, parent=state, label=f"generation {n}.")
        client = client_for(member)
        with django_assert_max_num_queries(16):
            shown = page(client, "state", workspace, state.pk)
        assert all(f"generation {n}." in shown for n in range(9))

    def test_a_worker_that_is_away_and_one_that_shall_forget_it_are_told_of(
        self, client_for: ClientFor, member: User, workspace: Workspace, state: State
    ) -> None:
        Worker.objects.update(last_seen_at=timezone.now() - timedelta(minutes=5))
        assert "nothing can start from it" in page(client_for(member), "state", workspace, state.pk)
        State.objects.update(status="leaving")
        assert "as soon as yard-a is connected again" in page(
            client_for(member), "state", workspace, state.pk
        )
        State.objects.update(status="gone")
        assert "yard-a has it no longer" in page(client_for(member), "state", workspace, state.pk)

    def test_an_outsider_and_another_workspace_find_nothing(
        self,
        client_for: ClientFor,
        outsider: User,
        workspace: Workspace,
        other_workspace: Workspace,
        state: State,
    ) -> None:
        client = client_for(outsider)
        for slug in (workspace.slug, other_workspace.slug):
            for name in ("state", "state-delete"):
                assert client.get(reverse(name, args=[slug, state.pk])).status_code == 404
            assert client.post(reverse("state-delete", args=[slug, state.pk])).status_code == 404
        state.refresh_from_db()
        assert state.status == "held"


class TestKeeping:
    @pytest.mark.parametrize(
        ("days", "says", "left"),
        [
            ("60", "It stays until", 60),
            ("1", "It stays longer than that already", 14),
            ("0", "Must be between 1 and 365.", 14),
            ("for ever", "Must be a whole number.", 14),
        ],
    )
    def test_a_member_has_one_kept_longer(
        self,
        client_for: ClientFor,
        member: User,
        workspace: Workspace,
        host: Worker,
        days: str,
        says: str,
        left: int,
    ) -> None:
        expires = timezone.now() + timedelta(days=14)
        state = StateFactory(worker=host, origin="saved", keep_days=14, expires_at=expires)
        client = client_for(member)
        assert "for 14 days" in page(client, "state", workspace, state.pk)
        assert "goes" in page(client, "state-list", workspace)
        reply = client.post(
            reverse("state-keep", args=[workspace.slug, state.pk]), {"keep_days": days}, follow=True
        )
        assert says in reply.content.decode()
        state.refresh_from_db()
        assert state.expires_at
        assert round((state.expires_at - timezone.now()) / timedelta(days=1)) == left

    def test_one_whose_days_are_over_is_said_to_go_once_nothing_needs_it(
        self, client_for: ClientFor, member: User, workspace: Workspace, host: Worker
    ) -> None:
        past = timezone.now() - timedelta(hours=1)
        state = StateFactory(worker=host, origin="saved", keep_days=14, expires_at=past)
        client = client_for(member)
        assert "once nothing needs it" in page(client, "state", workspace, state.pk)
        assert "goes once nothing needs it" in page(client, "state-list", workspace)

    def test_others_have_no_such_form(
        self, client_for: ClientFor, owner: User, workspace: Workspace, state: State
    ) -> None:
        assert reverse("state-keep", args=[workspace.slug, state.pk]) not in page(
            client_for(owner), "state", workspace, state.pk
        )


class TestDeleting:
    def test_an_admin_is_asked_first(
        self, client_for: ClientFor, admin: User, workspace: Workspace, state: State
    ) -> None:
        client = client_for(admin)
        assert "It cannot be made again" in page(client, "state-delete", workspace, state.pk)
        reply = client.post(reverse("state-delete", args=[workspace.slug, state.pk]), follow=True)
        assert "yard-a is deleting it" in reply.content.decode()
        state.refresh_from_db()
        assert state.status == "leaving"
        assert "already" in page(client, "state-delete", workspace, state.pk)

    def test_what_is_needed_says_by_what(
        self, client_for: ClientFor, admin: User, workspace: Workspace, state: State
    ) -> None:
        AssignmentFactory(worker=state.worker, status="held", payload={"setup_state": state.name})
        client = client_for(admin)
        for name in ("state", "state-delete"):
            assert "a desktop that is being played with it" in page(client, name, workspace, state.pk)
        reply = client.post(reverse("state-delete", args=[workspace.slug, state.pk]), follow=True)
        assert "It is needed by a desktop" in reply.content.decode()
        state.refresh_from_db()
        assert state.status == "held"

    def test_a_member_cannot(
        self, client_for: ClientFor, member: User, workspace: Workspace, state: State
    ) -> None:
        client = client_for(member)
        assert "Delete…" not in page(client, "state", workspace, state.pk)
        assert client.post(reverse("state-delete", args=[workspace.slug, state.pk])).status_code == 403
        state.refresh_from_db()
        assert state.status == "held"
