"""Rerun, and retry of what has no verdict, by the API."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.models import User, Workspace
from runs.models import Run
from runs.supervisor import one_pass
from tests.factories import RunFactory
from tests.runs.actions.conftest import new_run, worker
from tests.runs.paper_worker import PaperWorker

__all__ = ["new_run", "worker"]  # fixtures
Api = Callable[..., APIClient]


@pytest.fixture
def broken(new_run: Callable[..., Run], worker: PaperWorker) -> Run:
    """Ended, with one attempt that has no verdict."""
    run = new_run(tasks=["task-1"])
    for _ in range(3):
        one_pass()
        worker.break_down(worker.offered()[0])
    one_pass()
    return run


def test_a_rerun_is_a_new_run_of_the_same_document(api: Api, broken: Run) -> None:
    reply = api().post(f"/v1/runs/{broken.pk}/rerun")
    body = reply.json()
    assert reply.status_code == 201
    assert body["number"] == broken.number + 1
    assert (body["status"], body["spec"]) == ("queued", broken.spec)
    assert reply["Location"].endswith(f"/v1/runs/{body['id']}")


def test_a_rerun_that_cannot_be_says_why(api: Api, broken: Run) -> None:
    type(broken.template_version).objects.update(status="retired")
    reply = api().post(f"/v1/runs/{broken.pk}/rerun")
    assert reply.status_code == 422
    assert [error["field"] for error in reply.json()["errors"]] == ["template"]


def test_a_retry_goes_on_in_the_same_run(api: Api, broken: Run) -> None:
    reply = api().post(f"/v1/runs/{broken.pk}/retry-invalid", {"time_cap_minutes": 60})
    body = reply.json()
    assert reply.status_code == 200
    assert (body["id"], body["status"], body["stop_reason"]) == (str(broken.pk), "queued", None)
    assert body["counts"]["queued"] == 1
    assert body["caps"]["time_cap_minutes"] == 60


@pytest.mark.parametrize("what", ["rerun", "retry-invalid", "cancel"])
def test_a_field_that_would_do_nothing_is_refused(api: Api, broken: Run, what: str) -> None:
    reply = api().post(f"/v1/runs/{broken.pk}/{what}", {"rounds": 2})
    assert reply.status_code == 422
    assert [(e["field"], e["code"]) for e in reply.json()["errors"]] == [("rounds", "unknown_field")]
    assert Run.objects.count() == 1


@pytest.mark.parametrize("what", ["rerun", "retry-invalid", "cancel"])
def test_the_same_key_does_it_once(api: Api, broken: Run, new_run: Callable[..., Run], what: str) -> None:
    run = new_run() if what == "cancel" else broken
    client = api()
    first = client.post(f"/v1/runs/{run.pk}/{what}", headers={"Idempotency-Key": "k"})
    again = client.post(f"/v1/runs/{run.pk}/{what}", headers={"Idempotency-Key": "k"})
    assert first.status_code in (200, 201)
    assert again.json() == first.json()
    assert again["Idempotency-Replayed"] == "true"
    assert Run.objects.count() == (1 if what == "retry-invalid" else 2)
    assert run.events.filter(kind="run_reopened").count() == (what == "retry-invalid")


def test_nothing_to_retry_is_a_409(api: Api, workspace: Workspace, material: dict[str, Any]) -> None:
    run = RunFactory(workspace=workspace, status="completed")
    reply = api().post(f"/v1/runs/{run.pk}/retry-invalid")
    assert (reply.status_code, reply.json()["code"]) == (409, "nothing_to_retry")
    run = RunFactory(workspace=workspace, status="cancelled")
    reply = api().post(f"/v1/runs/{run.pk}/retry-invalid")
    assert (reply.status_code, reply.json()["code"]) == (409, "run_cancelled")


def test_a_cap_that_is_used_up_is_named(api: Api, broken: Run) -> None:
    budget = Run.objects.select_related("budget").get(pk=broken.pk).budget
    budget.spent = budget.cap
    budget.save()
    reply = api().post(f"/v1/runs/{broken.pk}/retry-invalid")
    assert reply.status_code == 422
    assert [(e["field"], e["code"]) for e in reply.json()["errors"]] == [("spend_cap_usd", "used_up")]


def test_who_may_not(api: Api, broken: Run, member: User, outsider: User, other_workspace: Workspace) -> None:
    for what in ("rerun", "retry-invalid"):
        address = f"/v1/runs/{broken.pk}/{what}"
        assert api("runs:read").post(address).status_code == 403
        assert api(user=outsider, workspace=other_workspace).post(address).status_code == 404
        assert api().get(address).status_code == 405
    refused = api(user=member).post(f"/v1/runs/{broken.pk}/retry-invalid").json()
    assert refused["code"] == "may_not_retry"
    assert refused["detail"] == "Only its creator, admins and owners may have a run's attempts tried again."
