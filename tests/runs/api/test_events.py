"""GET /v1/runs/{id}/events."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from console.models import Workspace
from tests.factories import EventFactory, RunFactory

pytestmark = pytest.mark.django_db


def test_events_come_in_order_without_gaps(api: Callable[..., APIClient], workspace: Workspace) -> None:
    run = RunFactory(workspace=workspace)
    EventFactory.create_batch(5, run=run)
    client, url, seen = api("runs:read"), f"/v1/runs/{run.pk}/events?limit=2", []
    while url:
        page = client.get(url).json()
        seen += [event["seq"] for event in page["results"]]
        url = page["next"]
    assert seen == [1, 2, 3, 4, 5]


def test_a_client_goes_on_after_what_it_has(api: Callable[..., APIClient], workspace: Workspace) -> None:
    run = RunFactory(workspace=workspace)
    EventFactory.create_batch(3, run=run)
    page = api().get(f"/v1/runs/{run.pk}/events?after=2").json()
    assert [event["seq"] for event in page["results"]] == [3]
    assert page["results"][0]["kind"] == "run_created"
    assert page["results"][0]["data"] == {"actor": "Olga Owner", "planned": 2}
    assert api().get(f"/v1/runs/{run.pk}/events?after=3").json() == {"results": [], "next": None}


def test_events_can_be_filtered(api: Callable[..., APIClient], workspace: Workspace) -> None:
    run = RunFactory(workspace=workspace)
    EventFactory(run=run)
    EventFactory(run=run, kind="attempt_verifying", attempt_number=2, data={})
    EventFactory(run=run, kind="attempt_ended", attempt_number=2, data={})
    base, client = f"/v1/runs/{run.pk}/events", api()

    def seqs(query: str) -> list[int]:
        return [event["seq"] for event in client.get(f"{base}?{query}").json()["results"]]

    assert seqs("kind=attempt_ended") == [3]
    assert seqs("kind=attempt_ended&kind=run_created") == [1, 3]
    assert seqs("attempt=2") == [2, 3]


@pytest.mark.parametrize(
    "query", ["kind=nope", "after=x", "after=-1", "after=1e99", "after=NaN", "attempt=0"]
)
def test_a_filter_that_cannot_be_is_a_422(
    api: Callable[..., APIClient], workspace: Workspace, query: str
) -> None:
    run = RunFactory(workspace=workspace)
    assert api().get(f"/v1/runs/{run.pk}/events?{query}").status_code == 422
