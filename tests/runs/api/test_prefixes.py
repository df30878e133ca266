"""Prefixes of a run and their steps."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from console.models import LedgerEntry, Workspace
from runs.models import Prefix, Run
from tests.factories import AttemptFactory, PrefixFactory, PrefixTryFactory, RunFactory

pytestmark = pytest.mark.django_db
WAIT = {"action": "wait"}


@pytest.fixture
def run(workspace: Workspace) -> Run:
    return RunFactory(workspace=workspace, status="running", planned=6)


@pytest.fixture
def prefix(run: Run) -> Prefix:
    """Number 1: two tries, the second with two steps; each try's desktop cost half a cent."""
    prefix = PrefixFactory(run=run)
    PrefixTryFactory(prefix=prefix, ok=False, invalid_reasons=["desktop_lost"])
    PrefixTryFactory(prefix=prefix, actions=[WAIT, WAIT])
    for one in prefix.try_rows.all():
        LedgerEntry.objects.create(
            workspace=run.workspace,
            budget=run.budget,
            subject=one.computer_id,
            rate_usd_per_hour=Decimal("0.06"),
            opened_at=one.computer.started_at,
            settled_at=one.computer.stopped_at,
            seconds=Decimal(300),
            cost=Decimal("0.005"),
        )
    return Prefix.objects.get(pk=prefix.pk)


def test_a_prefix_says_what_was_saved_and_what_it_cost(api: Callable[..., APIClient], prefix: Prefix) -> None:
    [row] = api("runs:read").get(f"/v1/runs/{prefix.run_id}/prefixes").json()["results"]
    assert (row["number"], row["task"], row["round"], row["copy"]) == (1, "task-1", 1, 1)
    assert (row["status"], row["steps"], row["cost_usd"]) == ("saved", 2, "0.01")
    assert (row["state"], row["state_digest"]) == (prefix.state.name, prefix.state.digest)
    assert row["computer"] == prefix.computer.label
    assert row["screenshot"].endswith(f"/v1/blobs/{prefix.screenshot}")


def test_an_attempt_names_its_prefix(api: Callable[..., APIClient], prefix: Prefix) -> None:
    AttemptFactory(run=prefix.run, prefix=prefix)
    AttemptFactory(run=prefix.run)
    rows = api("runs:read").get(f"/v1/runs/{prefix.run_id}/attempts").json()["results"]
    assert [row["prefix"] for row in rows] == [str(prefix.pk), None]


def test_its_steps_are_those_of_the_last_try_or_the_one_named(
    api: Callable[..., APIClient], prefix: Prefix
) -> None:
    client, address = api("runs:read"), f"/v1/prefixes/{prefix.pk}/steps"
    rows = client.get(address).json()["results"]
    assert [(row["number"], row["prefix"], row["action"]["action"]) for row in rows] == [
        (1, True, "wait"),
        (2, True, "wait"),
    ]
    assert client.get(rows[0]["screenshot"]).status_code == 200
    assert client.get(address, {"try": "1"}).json()["results"] == []
    assert client.get(address, {"try": "3"}).status_code == 404
    assert client.get(address, {"try": "x"}).status_code == 422


def test_a_prefix_not_begun_has_no_steps(api: Callable[..., APIClient], run: Run) -> None:
    prefix = Prefix.objects.create(
        workspace=run.workspace, run=run, number=1, task=run.task_set.tasks.first(), round=1, copy=1
    )
    assert api("runs:read").get(f"/v1/prefixes/{prefix.pk}/steps").json()["results"] == []


def test_as_many_questions_for_many_prefixes(api: Callable[..., APIClient], run: Run) -> None:
    client = api("runs:read")
    asked = []
    for more in (1, 6):
        for _ in range(more):
            PrefixTryFactory(prefix__run=run, actions=[WAIT])
        client.get(f"/v1/runs/{run.pk}/prefixes")
        with CaptureQueriesContext(connection) as queries:
            assert client.get(f"/v1/runs/{run.pk}/prefixes").status_code == 200
        asked.append(len(queries))
    assert asked[0] == asked[1]
