"""The cost over time of a run, and where the time of its desktops went."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.utils import timezone

from console.models import LedgerEntry, LedgerTally
from desktops.models import Computer
from runs.models import Attempt, Run
from runs.pages.metrics import cost_curve, time_spent
from tests.factories import AttemptTryFactory, EventFactory, PrefixFactory, PrefixTryFactory

from .stage import a_run, play

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


def test_desktop_time_is_every_second_that_is_billed_also_of_prefixes_and_cancelled_attempts(workspace):
    run = a_run(workspace, tasks=3)
    done, cancelled, _ = play(run, finished=1)
    begun = timezone.now() - timedelta(seconds=60)
    tries = [
        AttemptTryFactory(attempt=done),
        AttemptTryFactory(attempt=cancelled, ok=None),
        PrefixTryFactory(prefix=PrefixFactory(run=run)),
    ]
    Attempt.objects.filter(pk=cancelled.pk).update(status="cancelled")
    for seconds, one in zip((10, 20, 7), tries, strict=True):
        Computer.objects.filter(pk=one.computer.pk).update(
            started_at=begun, stopped_at=begun + timedelta(seconds=seconds)
        )
    spent = {one.word: one.seconds for one in time_spent(run)}
    assert sum(spent.values()) == pytest.approx(10 + 20 + 7)
    assert spent["Attempts that were cancelled"] == pytest.approx(20)
    assert spent["Steps that forks share"] == pytest.approx(7)
