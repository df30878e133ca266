"""Two requests with one Idempotency-Key at the same moment do one thing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from rest_framework.test import APIClient

from runs.models import Run
from tests.factories import document


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
