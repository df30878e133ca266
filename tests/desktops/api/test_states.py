"""GET /v1/states, and one of them: read, deleted."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.models import AuditEntry, User, Workspace
from desktops.models import State, Worker
from tests.factories import (
    AssignmentFactory,
    ComputerFactory,
    StateFactory,
    TemplateVersionFactory,
    WorkerFactory,
    sha256,
)

pytestmark = pytest.mark.django_db
Api = Callable[..., APIClient]


@pytest.fixture
def host(workspace: Workspace) -> Worker:
    return WorkerFactory(workspace=workspace, name="bench")


def rows(client: APIClient, query: str = "") -> list[dict[str, Any]]:
    reply = client.get(f"/v1/states{query}")
    assert reply.status_code == 200
    found: list[dict[str, Any]] = reply.json()["results"]
    return found


def test_a_document_says_what_it_is_and_what_made_it(api: Api, workspace: Workspace, host: Worker) -> None:
    computer = ComputerFactory(assignment=AssignmentFactory(worker=host))
    parent = StateFactory(worker=host, origin="setup", made_at=timezone.now() - timedelta(hours=1))
    state = StateFactory(
        worker=host,
        parent=parent,
        computer=computer,
        template_version=TemplateVersionFactory(workspace=workspace),
        label="Run #1, rename-folder",
        screenshot=sha256("screen"),
        uses=4,
    )
    first, second = rows(api("computers:read"))
    assert {key: first[key] for key in ("id", "origin", "status", "label", "worker", "template", "uses")} == {
        "id": str(state.pk),
        "origin": "prefix",
        "status": "held",
        "label": "Run #1, rename-folder",
        "worker": "bench",
        "template": "basic@1",
        "uses": 4,
    }
    assert first["parent"] == second["id"] == str(parent.pk)
    assert first["computer"] == computer.label
    assert first["made_by"] == {"kind": "attempt", "id": str(computer.assignment.subject)}
    assert first["screenshot"] == f"http://testserver/v1/blobs/{sha256('screen')}"
    assert (second["made_by"], second["computer"], second["screenshot"]) == (None, None, None)
    assert second["label"].startswith("Saved on ")
    assert api("computers:read").get(f"/v1/states/{state.pk}").json() == {**first, "needed_by": None}


def test_the_pages_hold_every_state_once_also_those_of_one_moment(api: Api, host: Worker) -> None:
    moment = timezone.now()
    states = StateFactory.create_batch(3, worker=host, made_at=moment)
    states += [StateFactory(worker=host, made_at=moment - timedelta(microseconds=n)) for n in (1, 2)]
    client, url, found = api("computers:read"), "/v1/states?limit=2", []
    while url:
        page = client.get(url).json()
        found += [row["id"] for row in page["results"]]
        url = page["next"]
    in_order = sorted(states, key=lambda state: (-state.made_at.timestamp(), str(state.pk)))
    assert found == [str(state.pk) for state in in_order]


@pytest.mark.parametrize(
    "values",
    [
        ["2026-01-01T00:00:00", "x"],
        ["2026-01-01T00:00:00", "00000000-0000-0000-0000-000000000000"],
        ["2026-01-01", "00000000-0000-0000-0000-000000000000"],
        [1, 1],
        ["2026-01-01T00:00:00Z"],
    ],
    ids=str,
)
def test_what_is_no_cursor_of_this_list_is_refused(api: Api, host: Worker, values: list[Any]) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps(values).encode()).decode()
    reply = api("computers:read").get(f"/v1/states?cursor={cursor}")
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["field"] == "cursor"


def test_a_list_can_be_narrowed(api: Api, workspace: Workspace, host: Worker) -> None:
    kept = StateFactory(worker=host)
    gone = StateFactory(worker=host, status="gone", origin="warm")
    other = StateFactory(worker=WorkerFactory(workspace=workspace, name="shelf"), origin="setup")
    for query, expected in (
        ("?worker=bench", {kept, gone}),
        ("?status=held", {kept, other}),
        ("?origin=warm&origin=setup", {gone, other}),
        ("?worker=shelf&status=gone", set()),
    ):
        assert {row["id"] for row in rows(api("computers:read"), query)} == {
            str(state.pk) for state in expected
        }
    for query in ("?status=nope", "?origin=nope"):
        assert api("computers:read").get(f"/v1/states{query}").status_code == 422


def test_it_is_deleted_once(api: Api, host: Worker) -> None:
    state, client = StateFactory(worker=host), api("computers:read", "computers:write")
    for _ in range(2):
        reply = client.delete(f"/v1/states/{state.pk}")
        assert reply.status_code == 200
        assert reply.json()["status"] == "leaving"
    State.objects.update(status="gone")
    assert client.delete(f"/v1/states/{state.pk}").json()["status"] == "gone"
    assert AuditEntry.objects.filter(action="state.deleted").count() == 1


def test_one_saved_by_a_person_is_kept_longer(api: Api, host: Worker, member: User) -> None:
    state = StateFactory(worker=host, origin="saved", keep_days=14)
    client = api("computers:read", "computers:write", user=member)
    reply = client.patch(f"/v1/states/{state.pk}", {"keep_days": 30}, format="json")
    assert (reply.status_code, reply.json()["keep_days"]) == (200, 30)
    state.refresh_from_db()
    assert state.expires_at
    assert state.expires_at > timezone.now() + timedelta(days=29)
    again = client.patch(f"/v1/states/{state.pk}", {"keep_days": 3}, format="json")
    assert (again.status_code, again.json()["code"]) == (409, "not_kept")


@pytest.mark.parametrize(
    ("document", "field", "code"),
    [
        ({}, "keep_days", "required"),
        ({"keep_days": 0}, "keep_days", "min_value"),
        ({"keep_days": 366}, "keep_days", "max_value"),
        ({"keep_days": "30"}, "keep_days", "invalid"),
        ({"keep_days": 30, "label": "Other"}, "label", "unknown_field"),
    ],
)
def test_a_lifetime_that_cannot_be_is_refused(
    api: Api, host: Worker, document: dict[str, Any], field: str, code: str
) -> None:
    state = StateFactory(worker=host, origin="saved", keep_days=14)
    reply = api("computers:write").patch(f"/v1/states/{state.pk}", document, format="json")
    assert reply.status_code == 422
    assert [(error["field"], error["code"]) for error in reply.json()["errors"]] == [(field, code)]


def test_what_is_needed_stays_and_says_so(api: Api, host: Worker) -> None:
    state, client = StateFactory(worker=host), api("computers:read", "computers:write")
    AssignmentFactory(worker=host, status="held", payload={"fork": {"state": state.name}})
    needed_by = client.get(f"/v1/states/{state.pk}").json()["needed_by"]
    assert needed_by == "a desktop that is being played with it"
    reply = client.delete(f"/v1/states/{state.pk}")
    assert (reply.status_code, reply.json()["code"]) == (409, "state_needed")
    assert needed_by in reply.json()["detail"]
    state.refresh_from_db()
    assert state.status == "held"


def test_a_member_s_token_deletes_none(api: Api, host: Worker, member: User) -> None:
    state = StateFactory(worker=host)
    reply = api("computers:write", user=member).delete(f"/v1/states/{state.pk}")
    assert (reply.status_code, reply.json()["code"]) == (403, "may_not_delete")


def test_another_workspace_finds_none(
    api: Api, host: Worker, outsider: User, other_workspace: Workspace
) -> None:
    state, client = StateFactory(worker=host), api(user=outsider, workspace=other_workspace)
    assert rows(client) == []
    for method in (client.get, client.delete):
        assert method(f"/v1/states/{state.pk}").status_code == 404
    state.refresh_from_db()
    assert state.status == "held"


def test_a_list_costs_the_same_however_long(
    api: Api, workspace: Workspace, host: Worker, django_assert_num_queries: Any
) -> None:
    client = api("computers:read")
    client.get("/v1/states")
    for version in (1, 2, 3):
        StateFactory(
            worker=host,
            computer=ComputerFactory(assignment=AssignmentFactory(worker=host)),
            template_version=TemplateVersionFactory(workspace=workspace, version=version),
        )
        with django_assert_num_queries(2):
            assert len(rows(client)) == version
