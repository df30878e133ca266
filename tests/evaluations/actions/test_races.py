"""Two clients at one open evaluation at once, on a database that commits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from rest_framework.test import APIClient

from evaluations.models import Batch, Evaluation, Rollout
from runs.models import TaskSet
from tests.evaluations.conftest import batch


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    together = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        together.wait(30)
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["there", "not-there-yet"])
def test_of_two_batches_that_overlap_one_is_refused_whole(
    name: str, basics: TaskSet, secret_for: Callable[..., str]
) -> None:
    secret = secret_for("evaluations:read", "evaluations:write")

    def client() -> APIClient:
        bearer = APIClient()
        bearer.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        return bearer

    if name == "there":
        client().post("/preview/evaluations", {"name": name, "open": True, **batch("task-1", seeds=[0])})
    before = Rollout.objects.count()
    path = f"/preview/evaluations/{name}/rollouts"
    wanted = [batch("task-1", seeds=list(range(1, 400))), batch("task-1", seeds=list(range(399, 800)))]
    replies = at_once([lambda one=one: client().post(path, one) for one in wanted])
    codes = sorted(reply.status_code for reply in replies)
    assert codes == [201, 409]
    (refused,) = [reply.json() for reply in replies if reply.status_code == 409]
    assert refused["code"] == "duplicate_identities"
    assert len(refused["identities"]) == 1
    stored = Rollout.objects.count() - before
    assert stored in (399, 401)
    row = Evaluation.objects.get()
    assert (row.total, Batch.objects.count()) == (before + stored, row.batches_added)
    assert list(Rollout.objects.order_by("number").values_list("number", flat=True)) == list(
        range(1, row.total + 1)
    )


@pytest.mark.django_db(transaction=True)
def test_nothing_is_added_after_the_seal(basics: TaskSet, secret_for: Callable[..., str]) -> None:
    secret = secret_for("evaluations:read", "evaluations:write")

    def post(path: str, body: Any) -> Any:
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        return client.post(path, body)

    post("/preview/evaluations", {"name": "night", "open": True, **batch("task-1")})
    sealed, added = at_once(
        [
            lambda: post("/preview/evaluations/night/seal", {}),
            lambda: post("/preview/evaluations/night/rollouts", batch("task-2")),
        ]
    )
    assert sealed.status_code == 200
    expected = {201: 2, 409: 1}[added.status_code]
    row = Evaluation.objects.get()
    assert (row.status, row.total, Rollout.objects.count()) == ("sealed", expected, expected)
