"""GET /v1/runs and /v1/runs/{id}, POST /v1/runs/{id}/cancel."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.models import User, Workspace
from runs.models import Run
from tests.factories import AttemptFactory, RunFactory, recount

pytestmark = pytest.mark.django_db


def numbers(reply: Any) -> list[int]:
    assert reply.status_code == 200, reply.content
    return [run["number"] for run in reply.json()["results"]]


def test_runs_come_newest_first_in_pages(api: Callable[..., APIClient], workspace: Workspace) -> None:
    RunFactory.create_batch(5, workspace=workspace)
    client, url, seen = api("runs:read"), "/v1/runs?limit=2", []
    while url:
        page = client.get(url).json()
        assert set(page) == {"results", "next"}
        assert len(page["results"]) <= 2
        seen += [run["number"] for run in page["results"]]
        url = page["next"]
    assert seen == [5, 4, 3, 2, 1]


def test_filters_hold_on_every_page(api: Callable[..., APIClient], workspace: Workspace) -> None:
    for status in ("queued", "completed", "completed", "failed", "completed"):
        RunFactory(workspace=workspace, status=status)
    client = api()
    first = client.get("/v1/runs?status=completed&limit=2")
    assert numbers(first) == [5, 3]
    assert numbers(client.get(first.json()["next"])) == [2]


def test_runs_can_be_filtered(api: Callable[..., APIClient], workspace: Workspace) -> None:
    RunFactory(workspace=workspace, name="Nightly smoke")
    RunFactory(workspace=workspace, name="Weekly", status="completed")
    client = api()
    assert numbers(client.get("/v1/runs?status=completed&status=queued")) == [2, 1]
    assert numbers(client.get("/v1/runs?status=failed")) == []
    assert numbers(client.get("/v1/runs?name=smoke")) == [1]
    assert numbers(client.get("/v1/runs?number=2")) == [2]
    assert numbers(client.get("/v1/runs?kind=evaluation")) == []
    assert numbers(client.get("/v1/runs?stop_reason=all_tasks_done")) == [2]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("status=nope", "status"),
        ("kind=nope", "kind"),
        ("number=x", "number"),
        ("number=0", "number"),
        ("number=1.5", "number"),
        ("number=99999999999", "number"),
        ("name=%00", "name"),
        ("limit=0", "limit"),
        ("limit=x", "limit"),
        ("limit=-1", "limit"),
        ("cursor=x", "cursor"),
        ("cursor=!!", "cursor"),
        ("cursor=W10", "cursor"),
        ("cursor=WyJ4Il0", "cursor"),
        ("cursor=W251bGxd", "cursor"),
        ("cursor=Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTld", "cursor"),
        ("cursor=ä", "cursor"),
    ],
)
def test_a_filter_that_cannot_be_is_a_422(api: Callable[..., APIClient], query: str, field: str) -> None:
    reply = api().get(f"/v1/runs?{query}")
    assert reply.status_code == 422
    assert [error["field"] for error in reply.json()["errors"]] == [field]


def test_another_workspaces_runs_are_not_listed(
    api: Callable[..., APIClient], workspace: Workspace, outsider: User, other_workspace: Workspace
) -> None:
    RunFactory(workspace=workspace)
    assert numbers(api(user=outsider, workspace=other_workspace).get("/v1/runs")) == []


def test_a_list_costs_the_same_however_long(
    api: Callable[..., APIClient], workspace: Workspace, django_assert_num_queries: Any
) -> None:
    client = api()
    client.get("/v1/runs")  # notes the token's use
    for made in (1, 8):
        RunFactory.create_batch(made, workspace=workspace)
        with django_assert_num_queries(2):
            client.get("/v1/runs")


def test_a_run_shows_its_counts_and_cost(api: Callable[..., APIClient], workspace: Workspace) -> None:
    run = RunFactory(workspace=workspace, status="running", planned=5)
    AttemptFactory(run=run, valid=True)
    AttemptFactory(run=run, valid=True, reward=0.5)
    AttemptFactory(run=run, faulty=True)
    AttemptFactory(run=run, status="running")
    recount(run)
    body = api("runs:read").get(f"/v1/runs/{run.pk}").json()
    assert body["counts"] == {
        "planned": 5,
        "queued": 1,
        "running": 1,
        "verifying": 0,
        "done": 2,
        "error": 1,
        "cancelled": 0,
        "valid": 2,
        "invalid": 1,
        "not_checked": 2,
        "success": 1,
        "fail": 1,
    }
    fields = "id number url name kind status stop_reason spec counts cost created_at started_at ended_at"
    assert set(fields.split()) <= set(body)


@pytest.mark.parametrize("route", ["", "/attempts", "/events", "/provenance"])
class TestWhoMayRead:
    def test_the_run_of_another_workspace_is_a_404(
        self,
        api: Callable[..., APIClient],
        workspace: Workspace,
        outsider: User,
        other_workspace: Workspace,
        route: str,
    ) -> None:
        run = RunFactory(workspace=workspace)
        reply = api(user=outsider, workspace=other_workspace).get(f"/v1/runs/{run.pk}{route}")
        assert reply.status_code == 404
        assert reply.json()["code"] == "not_found"

    def test_an_unknown_run_is_a_404(self, api: Callable[..., APIClient], route: str) -> None:
        assert api().get(f"/v1/runs/{uuid.uuid4()}{route}").status_code == 404

    def test_what_is_no_id_is_a_404(self, api: Callable[..., APIClient], route: str) -> None:
        assert api().get(f"/v1/runs/1{route}").status_code == 404

    def test_the_scope_is_needed(
        self, api: Callable[..., APIClient], workspace: Workspace, route: str
    ) -> None:
        run = RunFactory(workspace=workspace)
        assert api("runs:write").get(f"/v1/runs/{run.pk}{route}").status_code == 403

    def test_without_a_token_it_is_a_401(self, workspace: Workspace, route: str) -> None:
        run = RunFactory(workspace=workspace)
        assert APIClient().get(f"/v1/runs/{run.pk}{route}").status_code == 401

    def test_the_wrong_method_is_a_405(
        self, api: Callable[..., APIClient], workspace: Workspace, route: str
    ) -> None:
        run = RunFactory(workspace=workspace)
        for method in ("delete", "put", *(["patch"] if route else []), "options"):
            reply = getattr(api(), method)(f"/v1/runs/{run.pk}{route}")
            assert reply.status_code == 405
            assert reply.json()["code"] == "method_not_allowed"


class TestCancel:
    def test_a_queued_run_is_cancelled(self, api: Callable[..., APIClient], workspace: Workspace) -> None:
        run = RunFactory(workspace=workspace)
        reply = api("runs:write").post(f"/v1/runs/{run.pk}/cancel")
        assert reply.status_code == 200
        assert reply.json()["status"] in ("cancelling", "cancelled")
        assert reply.json()["stop_reason"] == "cancelled_by_user"

    @pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
    def test_what_has_ended_is_a_409(
        self, api: Callable[..., APIClient], workspace: Workspace, status: str
    ) -> None:
        run = RunFactory(workspace=workspace, status=status)
        reply = api().post(f"/v1/runs/{run.pk}/cancel")
        assert reply.status_code == 409
        assert reply.json()["code"] == "run_ended"
        run.refresh_from_db()
        assert run.status == status

    def test_a_member_may_not_cancel_the_run_of_another(
        self, api: Callable[..., APIClient], workspace: Workspace, member: User, owner: User
    ) -> None:
        run = RunFactory(workspace=workspace, creator=owner)
        reply = api(user=member).post(f"/v1/runs/{run.pk}/cancel")
        assert reply.status_code == 403
        assert reply.json()["code"] == "may_not_cancel"
        assert Run.objects.get().status == "queued"

    def test_a_member_may_cancel_an_own_run(
        self, api: Callable[..., APIClient], workspace: Workspace, member: User
    ) -> None:
        run = RunFactory(workspace=workspace, creator=member)
        assert api(user=member).post(f"/v1/runs/{run.pk}/cancel").status_code == 200

    def test_reading_is_not_enough(self, api: Callable[..., APIClient], workspace: Workspace) -> None:
        run = RunFactory(workspace=workspace)
        assert api("runs:read").post(f"/v1/runs/{run.pk}/cancel").status_code == 403

    def test_the_run_of_another_workspace_is_a_404(
        self, api: Callable[..., APIClient], workspace: Workspace, outsider: User, other_workspace: Workspace
    ) -> None:
        run = RunFactory(workspace=workspace)
        client = api(user=outsider, workspace=other_workspace)
        assert client.post(f"/v1/runs/{run.pk}/cancel").status_code == 404

    def test_reading_the_address_is_a_405(self, api: Callable[..., APIClient], workspace: Workspace) -> None:
        run = RunFactory(workspace=workspace)
        assert api().get(f"/v1/runs/{run.pk}/cancel").status_code == 405
