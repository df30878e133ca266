"""Attempts of a run, one attempt, its steps and screenshots."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.models import User, Workspace
from runs.models import Attempt, Run
from tests.factories import PNG, AttemptFactory, AttemptTryFactory, RunFactory, StepFactory, recount

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(workspace: Workspace) -> Run:
    return RunFactory(workspace=workspace, status="running", planned=6)


@pytest.fixture
def played(run: Run) -> Attempt:
    """Number 1: two tries, the second with two steps and a verdict."""
    attempt = AttemptFactory(run=run, valid=True, steps=2, tries=2)
    AttemptTryFactory(attempt=attempt, ok=False, reward=None, invalid_reasons=["desktop_lost"])
    good = AttemptTryFactory(
        attempt=attempt, verdict={"checker": "exact_match", "reward": 1.0, "evidence": []}
    )
    StepFactory.create_batch(2, attempt_try=good)
    attempt.computer = good.computer
    attempt.worker = good.computer.worker
    attempt.save()
    recount(run)
    return attempt


def numbers(reply: Any) -> list[int]:
    assert reply.status_code == 200, reply.content
    return [row["number"] for row in reply.json()["results"]]


def test_an_attempt_has_its_three_columns_and_the_rest(
    api: Callable[..., APIClient], played: Attempt
) -> None:
    [row] = api("runs:read").get(f"/v1/runs/{played.run_id}/attempts").json()["results"]
    fields = (
        "id task round copy fork status verifier outcome reward invalid_reasons checker_error steps "
        "duration_seconds computer tries"
    )
    assert set(fields.split()) <= set(row)
    assert (row["status"], row["verifier"], row["outcome"], row["reward"]) == (
        "done",
        "valid",
        "success",
        1.0,
    )
    assert (row["task"], row["steps"], row["tries"], row["computer"]) == ("task-1", 2, 2, "c-0002")
    assert row["checker_error"] is None
    assert row["duration_seconds"] == pytest.approx(3, abs=0.5)


def test_an_attempt_without_a_verdict_has_no_outcome(api: Callable[..., APIClient], run: Run) -> None:
    AttemptFactory(run=run, faulty=True)
    [row] = api().get(f"/v1/runs/{run.pk}/attempts").json()["results"]
    assert (row["status"], row["verifier"], row["outcome"]) == ("error", "invalid", None)
    assert row["invalid_reasons"] == ["desktop_lost"]
    assert row["computer"] is None


def test_attempts_can_be_filtered_by_each_column(api: Callable[..., APIClient], run: Run) -> None:
    second = run.task_set.tasks.get(task_id="task-2")
    AttemptFactory(run=run, valid=True)
    AttemptFactory(run=run, valid=True, reward=0.0, task=second)
    AttemptFactory(run=run, faulty=True, round=2)
    AttemptFactory(run=run)
    client, base = api(), f"/v1/runs/{run.pk}/attempts"
    assert numbers(client.get(base)) == [1, 2, 3, 4]
    assert numbers(client.get(f"{base}?status=done")) == [1, 2]
    assert numbers(client.get(f"{base}?status=done&status=queued")) == [1, 2, 4]
    assert numbers(client.get(f"{base}?verifier=invalid")) == [3]
    assert numbers(client.get(f"{base}?outcome=success")) == [1]
    assert numbers(client.get(f"{base}?outcome=fail")) == [2]
    assert numbers(client.get(f"{base}?outcome=none")) == [3, 4]
    assert numbers(client.get(f"{base}?task=task-2")) == [2]
    assert numbers(client.get(f"{base}?round=2")) == [3]


@pytest.mark.parametrize("query", ["status=nope", "verifier=nope", "outcome=nope", "round=x", "task=%00"])
def test_a_filter_that_cannot_be_is_a_422(api: Callable[..., APIClient], run: Run, query: str) -> None:
    assert api().get(f"/v1/runs/{run.pk}/attempts?{query}").status_code == 422


def test_a_list_costs_the_same_however_long(
    api: Callable[..., APIClient], played: Attempt, django_assert_num_queries: Any
) -> None:
    client, address = api(), f"/v1/runs/{played.run_id}/attempts"
    client.get(address)
    for made in (1, 6):
        AttemptFactory.create_batch(
            made, run=played.run, valid=True, computer=played.computer, worker=played.worker
        )
        with django_assert_num_queries(3):
            client.get(address)


def test_one_attempt_shows_all_its_tries(
    api: Callable[..., APIClient], played: Attempt, django_assert_num_queries: Any
) -> None:
    client = api("runs:read")
    client.get("/v1/runs")
    with django_assert_num_queries(4):
        body = client.get(f"/v1/attempts/{played.pk}").json()
    assert [row["ok"] for row in body["all_tries"]] == [False, True]
    assert body["all_tries"][0]["invalid_reasons"] == ["desktop_lost"]
    assert body["all_tries"][1]["verdict"]["checker"] == "exact_match"


def test_steps_are_those_of_the_last_try_unless_another_is_named(
    api: Callable[..., APIClient], played: Attempt
) -> None:
    client = api("runs:read")
    rows = client.get(f"/v1/attempts/{played.pk}/steps").json()["results"]
    assert [row["number"] for row in rows] == [1, 2]
    assert rows[0]["action"]["action"] == "click"
    assert rows[0]["took_ms"] == 50
    assert client.get(f"/v1/attempts/{played.pk}/steps?try=1").json()["results"] == []
    assert client.get(f"/v1/attempts/{played.pk}/steps?try=2").json()["results"] == rows


def test_an_attempt_that_has_not_begun_has_no_steps(api: Callable[..., APIClient], run: Run) -> None:
    attempt = AttemptFactory(run=run)
    assert api().get(f"/v1/attempts/{attempt.pk}/steps").json() == {"results": [], "next": None}
    assert api().get(f"/v1/attempts/{attempt.pk}/steps/1/screenshot").status_code == 404


def test_a_step_leads_to_its_screenshot(api: Callable[..., APIClient], played: Attempt) -> None:
    client = api("runs:read")
    address = client.get(f"/v1/attempts/{played.pk}/steps").json()["results"][1]["screenshot"]
    reply = client.get(address)
    assert reply.status_code == 200
    assert reply["Content-Type"] == "image/png"
    assert reply.content == PNG
    assert client.get(address, headers={"If-None-Match": reply["ETag"]}).status_code == 304


@pytest.mark.parametrize("named", ["0", "301", "x", "", "-1", "99999999999999999999"])
def test_a_try_that_cannot_be_is_a_422(api: Callable[..., APIClient], played: Attempt, named: str) -> None:
    for route in ("steps", "steps/1/screenshot"):
        reply = api().get(f"/v1/attempts/{played.pk}/{route}?try={named}")
        assert reply.status_code == 422
        assert reply.json()["errors"][0]["field"] == "try"


@pytest.mark.parametrize("number", ["0", "3", "99999999999999999999"])
def test_an_unknown_step_is_a_404(api: Callable[..., APIClient], played: Attempt, number: str) -> None:
    assert api().get(f"/v1/attempts/{played.pk}/steps/{number}/screenshot").status_code == 404


@pytest.mark.parametrize("route", ["", "/steps", "/steps/1/screenshot"])
def test_who_may_not_read_an_attempt(
    api: Callable[..., APIClient],
    played: Attempt,
    outsider: User,
    other_workspace: Workspace,
    route: str,
) -> None:
    address = f"/v1/attempts/{played.pk}{route}"
    assert api(user=outsider, workspace=other_workspace).get(address).status_code == 404
    assert api("runs:write").get(address).status_code == 403
    assert APIClient().get(address).status_code == 401
    assert api().post(address).status_code == 405
    assert api().get(f"/v1/attempts/{uuid.uuid4()}{route}").status_code == 404
