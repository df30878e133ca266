"""The cost over time of a run."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.utils import timezone

from console.models import LedgerEntry, LedgerTally
from runs.models import Run
from runs.pages.metrics import cost_curve
from tests.factories import EventFactory

from .stage import a_run

pytestmark = pytest.mark.django_db


def test_the_time_before_a_run_was_reopened_is_no_part_of_its_cost_over_time(workspace):
    now = timezone.now()
    start = now - timedelta(hours=5)
    run = a_run(
        workspace,
        started_at=start,
        reopened=1,
        earlier_seconds=600,
        resumed_at=now - timedelta(minutes=10),
    )
    for seq, (new, at) in enumerate(
        [("completed", start + timedelta(minutes=10)), ("queued", now), ("preparing", run.resumed_at)], 1
    ):
        EventFactory(run=run, seq=seq, kind="run_status", at=at, data={"old": "", "new": new})
    for at in (start + timedelta(minutes=5), now - timedelta(minutes=5)):
        LedgerEntry.objects.create(
            workspace=workspace,
            budget=run.budget,
            subject=uuid4(),
            rate_usd_per_hour=Decimal("0.12"),
            opened_at=at,
            settled_at=at,
            seconds=Decimal(60),
            cost=Decimal("0.002"),
        )
    assert LedgerTally.objects.filter(budget=run.budget, span="slot").count() == 2
    run.budget.spent = Decimal("0.004")
    run.budget.save()
    curve = cost_curve(Run.objects.select_related("budget").get(pk=run.pk), now)
    assert curve is not None
    heights = [float(point.split(",")[1]) for point in curve.path.split()]
    levels = sorted(set(heights), key=heights.index)
    assert len(levels) == 3
    # The first cost stands at a quarter of the time that it played, the second at three quarters.
    assert [round(100 * heights.index(level) / 80) for level in levels[1:]] == pytest.approx([25, 75], abs=8)


def test_a_run_that_has_spent_nothing_has_no_cost_curve(workspace):
    run = a_run(workspace)
    assert cost_curve(Run.objects.select_related("budget").get(pk=run.pk), timezone.now()) is None
