"""The first rows of several ranges are what the whole list begins with."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext

from console.keyset import first_rows
from console.models import Workspace
from runs.columns import ranges
from runs.models import Attempt
from tests.factories import AttemptFactory, RunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempts(workspace: Workspace, material: dict[str, Any]) -> list[Attempt]:
    run = RunFactory(workspace=workspace, status="running")
    looks = [{"valid": True}, {"faulty": True}, {"valid": True, "reward": 0.0}, {}, {"status": "running"}]
    return [AttemptFactory(run=run, **looks[n % len(looks)]) for n in range(20)]


@pytest.mark.parametrize("order", ["number", "-number"])
@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        (ranges(["done", "error"]), Q(status__in=["done", "error"])),
        (ranges(Attempt.Status.values, ["invalid"]), Q(verifier="invalid")),
        (ranges(Attempt.Status.values, [], "fail"), Q(outcome="fail")),
        (ranges(Attempt.Status.values, [], "none"), Q(outcome=None)),
        (ranges(["done"], ["valid"], "success"), Q(outcome="success")),
        (ranges(["done"], ["invalid"], "success"), Q(pk__in=[])),
        (ranges(["done"], ["valid"], "none"), Q(pk__in=[])),
    ],
)
def test_ranges_give_what_the_filter_gives(
    attempts: list[Attempt], columns: list[Q], wanted: Q, order: str
) -> None:
    found = Attempt.objects.select_related("task")
    expected = list(found.filter(wanted).order_by(order)[:7])
    assert first_rows(found, [order], 7, columns) == expected


def test_many_ranges_are_two_queries(attempts: list[Attempt]) -> None:
    with CaptureQueriesContext(connection) as queries:
        first_rows(Attempt.objects.all(), ["number"], 5, ranges(Attempt.Status.values))
    assert len(queries) == 2
