"""GET /v1/templates and /v1/workers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.models import User, Workspace
from tests.factories import (
    AssignmentFactory,
    ComputerFactory,
    TemplateVersionFactory,
    WorkerFactory,
)

pytestmark = pytest.mark.django_db


def test_templates_come_with_all_their_versions(api: Callable[..., APIClient], workspace: Workspace) -> None:
    for name, version in (("office", 1), ("basic", 1), ("basic", 2)):
        TemplateVersionFactory(workspace=workspace, name=name, version=version)
    TemplateVersionFactory(workspace=workspace, version=3, draft=True)
    client, url, rows = api("runs:read"), "/v1/templates?limit=1", []
    while url:
        page = client.get(url).json()
        rows += page["results"]
        url = page["next"]
    assert [(row["name"], row["version"], row["status"]) for row in rows] == [
        ("basic", 3, "draft"),
        ("basic", 2, "published"),
        ("basic", 1, "published"),
        ("office", 1, "published"),
    ]
    assert rows[0]["digest"] is None
    assert rows[1]["digest"].startswith("sha256:")
    assert rows[1]["rate_usd_per_hour"] == "0.06"


def test_templates_can_be_filtered(api: Callable[..., APIClient], workspace: Workspace) -> None:
    TemplateVersionFactory(workspace=workspace)
    TemplateVersionFactory(workspace=workspace, version=2, draft=True)
    client = api()
    assert len(client.get("/v1/templates?status=published").json()["results"]) == 1
    assert len(client.get("/v1/templates?name=basic").json()["results"]) == 2
    assert client.get("/v1/templates?status=nope").status_code == 422


def test_workers_tell_whether_they_are_there_and_what_they_hold(
    api: Callable[..., APIClient], workspace: Workspace
) -> None:
    worker = WorkerFactory(workspace=workspace, name="here")
    for stopped_at in (None, timezone.now()):
        ComputerFactory(assignment=AssignmentFactory(worker=worker), stopped_at=stopped_at)
    WorkerFactory(workspace=workspace, name="quiet", last_seen_at=timezone.now() - timedelta(minutes=1))
    rows = api("runs:read").get("/v1/workers").json()["results"]
    assert [(row["name"], row["connected"], row["held"]) for row in rows] == [
        ("here", True, 1),
        ("quiet", False, 0),
    ]
    assert rows[0]["images"][0]["name"] == "basic"


@pytest.mark.parametrize("address", ["/v1/templates", "/v1/workers"])
class TestWhoMayRead:
    def test_another_workspace_sees_nothing(
        self,
        api: Callable[..., APIClient],
        workspace: Workspace,
        outsider: User,
        other_workspace: Workspace,
        address: str,
    ) -> None:
        TemplateVersionFactory(workspace=workspace)
        WorkerFactory(workspace=workspace)
        assert api(user=outsider, workspace=other_workspace).get(address).json()["results"] == []

    def test_scope_token_and_method_are_checked(self, api: Callable[..., APIClient], address: str) -> None:
        assert api("computers:read").get(address).status_code == 403
        assert APIClient().get(address).status_code == 401
        assert api().post(address).status_code == 405

    def test_a_list_costs_the_same_however_long(
        self,
        api: Callable[..., APIClient],
        workspace: Workspace,
        address: str,
        django_assert_num_queries: Any,
    ) -> None:
        client = api()
        client.get(address)
        for version in (1, 2, 3):
            TemplateVersionFactory(workspace=workspace, version=version)
            WorkerFactory(workspace=workspace)
            with django_assert_num_queries(2):
                client.get(address)
