from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.models import User, Workspace
from runs.models import Run
from tests.factories import RunFactory

Api = Callable[..., APIClient]


@pytest.fixture
def run(workspace: Workspace, material: dict[str, Any]) -> Run:
    return RunFactory(workspace=workspace, status="running")


def test_the_caps_in_force_change_and_the_spec_stays(api: Api, run: Run) -> None:
    reply = api().patch(f"/v1/runs/{run.pk}", {"spend_cap_usd": "1.25", "time_cap_minutes": 60})
    body = reply.json()
    assert reply.status_code == 200
    assert body["caps"] == {"spend_cap_usd": "1.25", "time_cap_minutes": 60}
    assert body["cost"] == {
        "cap_usd": "1.25",
        "spent_usd": "0.00",
        "reserved_usd": "0.00",
        "left_usd": "1.25",
    }
    assert (body["spec"]["spend_cap_usd"], body["spec"]["time_cap_minutes"]) == ("0.50", 30)


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({}, "", "required"),
        ({"rounds": 2}, "rounds", "unknown_field"),
        ({"spend_cap_usd": "0.001"}, "spend_cap_usd", "too_many_decimals"),
        ({"spend_cap_usd": "x"}, "spend_cap_usd", "invalid"),
        ({"time_cap_minutes": "60"}, "time_cap_minutes", "invalid"),
        ({"time_cap_minutes": 5000}, "time_cap_minutes", "max_value"),
        ({"time_cap_minutes": 1}, "time_cap_minutes", "below_used"),
    ],
)
def test_caps_that_cannot_be_are_named(
    api: Api, run: Run, body: dict[str, Any], field: str, code: str
) -> None:
    reply = api().patch(f"/v1/runs/{run.pk}", body)
    assert reply.status_code == 422
    assert [(e["field"], e["code"]) for e in reply.json()["errors"]] == [(field, code)]


def test_a_run_that_has_ended_is_a_409(api: Api, workspace: Workspace, material: dict[str, Any]) -> None:
    run = RunFactory(workspace=workspace, status="completed")
    reply = api().patch(f"/v1/runs/{run.pk}", {"time_cap_minutes": 60})
    assert (reply.status_code, reply.json()["code"]) == (409, "run_ended")


def test_another_persons_run_is_a_403_and_a_reading_token_too(api: Api, run: Run, member: User) -> None:
    assert (
        api(user=member).patch(f"/v1/runs/{run.pk}", {"time_cap_minutes": 60}).json()["code"]
        == "may_not_change_caps"
    )
    assert (
        api("runs:read").patch(f"/v1/runs/{run.pk}", {"time_cap_minutes": 60}).json()["code"]
        == "scope_missing"
    )


def test_another_workspaces_run_is_a_404(
    api: Api, run: Run, outsider: User, other_workspace: Workspace
) -> None:
    reply = api(user=outsider, workspace=other_workspace).patch(
        f"/v1/runs/{run.pk}", {"time_cap_minutes": 60}
    )
    assert reply.status_code == 404
