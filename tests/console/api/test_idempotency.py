"""Two requests with one Idempotency-Key at the same moment do one thing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from drf_spectacular.generators import SchemaGenerator
from rest_framework.test import APIClient

from console.models import Workspace
from runs.models import Run
from tests.factories import EvaluationFactory, RunFactory, document


@pytest.mark.django_db(transaction=True)
def test_a_race_makes_one_run_and_both_get_it(
    secret_for: Callable[..., str], material: dict[str, Any]
) -> None:
    secret = secret_for()
    together = threading.Barrier(4)

    def send(_: int) -> Any:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}", HTTP_IDEMPOTENCY_KEY="night-1")
        together.wait(10)
        try:
            return client.post("/v1/runs", document("basics", ["task-1"]))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(send, range(4)))
    assert [reply.status_code for reply in replies] == [201] * 4
    assert len({reply.json()["id"] for reply in replies}) == 1
    assert Run.objects.count() == 1
    assert sum("Idempotency-Replayed" in reply for reply in replies) == 3


# A ticket serves once, for seconds: the same one again is of no use, and it is a secret that must not be kept.
TICKETS = {"/v1/computers/{id}/view"}


def posts() -> list[str]:
    """The addresses that the OpenAPI document has a POST for, which makes something that stays: a new one cannot be
    forgotten."""
    schema = SchemaGenerator().get_schema(request=None, public=True)
    found = [path for path, operations in schema["paths"].items() if "post" in operations]
    assert set(found) >= TICKETS
    return [path for path in found if path not in TICKETS]


def test_every_post_documents_the_key() -> None:
    schema = SchemaGenerator().get_schema(request=None, public=True)
    for path in posts():
        names = [one["name"] for one in schema["paths"][path]["post"].get("parameters", [])]
        assert "Idempotency-Key" in names, path


def test_every_post_reads_the_key_before_it_acts(api: Callable[..., APIClient], workspace: Workspace) -> None:
    run = RunFactory(workspace=workspace, status="running")
    evaluation = EvaluationFactory(workspace=workspace)
    tried = posts()
    assert "/v1/runs" in tried
    for path in tried:
        address = path.replace("{id}", str(run.pk)).replace("{name}", evaluation.name)
        assert "{" not in address, f"{path}: give this test something to put in"
        reply = api().post(address, {}, headers={"Idempotency-Key": "k" * 256})
        assert reply.status_code == 422, path
        assert [error["field"] for error in reply.json()["errors"]] == ["Idempotency-Key"], path
