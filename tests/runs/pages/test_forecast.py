from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.utils import timezone

from console.models import LedgerEntry
from console.spending import ON_ITS_WAY_SECONDS
from runs.models import Attempt, Run
from runs.pages.forecast import forecast
from tests.factories import recount

from .stage import a_run, end, play

pytestmark = pytest.mark.django_db


def halfway(workspace, **spec) -> tuple[Run, object]:
    """Five of ten attempts in five minutes, ten cents of fifty spent."""
    run = a_run(workspace, tasks=10)
    play(run, finished=5)
    now = timezone.now()
    run.started_at = now - timedelta(minutes=5)
    run.spec.update(spec)
    run.budget.spent = Decimal("0.10")
    return run, now


def test_nothing_is_guessed_before_the_first_result(workspace):
    run = a_run(workspace)
    play(run, finished=0)
    assert forecast(run, timezone.now()) is None


def test_a_run_that_ended_has_no_forecast(workspace):
    run = a_run(workspace)
    play(run)
    assert forecast(end(run), timezone.now()) is None


def test_the_rest_takes_as_long_as_what_was_played(workspace):
    run, now = halfway(workspace)
    found = forecast(run, now)
    assert found.first.name == "all"
    assert found.first.seconds == pytest.approx(300)
    assert found.cost == pytest.approx(0.20)
    assert not found.hits_a_cap


def test_a_target_may_come_first(workspace):
    run, now = halfway(workspace, stop_after_valid=6)
    assert forecast(run, now).first.name == "valid"


def test_the_time_cap_may_come_first(workspace):
    run, now = halfway(workspace)
    run.time_cap_minutes = 6
    found = forecast(run, now)
    assert found.first.name == "time"
    assert found.first.seconds == pytest.approx(60)
    assert found.hits_a_cap


def test_a_forecast_never_passes_the_spend_cap(workspace):
    run, now = halfway(workspace)
    run.budget.cap = Decimal("0.12")
    found = forecast(run, now)
    assert found.first.name == "spend"
    assert found.cost == pytest.approx(0.12)


def test_a_run_on_many_desktops_is_not_slow_before_its_first_have_ended(workspace):
    """Three of 21 in 48 s and four on their way: 16 are left at the pace of five, not 18 at the pace of three."""
    run = a_run(workspace, tasks=21)
    attempts = play(run, finished=3)
    Attempt.objects.filter(pk__in=[one.pk for one in attempts[3:7]]).update(status="running")
    recount(run)
    now = timezone.now()
    run.started_at = now - timedelta(seconds=48)
    assert forecast(run, now).first.seconds == pytest.approx(16 * 48 / 5)


def test_what_is_held_ahead_is_not_taken_for_pace(workspace):
    """Four desktops at $0.06 an hour for 48 s are $0.0032; a minute of each is reserved beyond that."""
    run = a_run(workspace, tasks=10)
    play(run, finished=5)
    now = timezone.now()
    run.started_at = now - timedelta(seconds=48)
    for _ in range(4):
        LedgerEntry.objects.create(
            workspace=workspace,
            budget=run.budget,
            subject=uuid4(),
            rate_usd_per_hour=Decimal("0.06"),
            opened_at=run.started_at - timedelta(seconds=ON_ITS_WAY_SECONDS),
        )
    run.budget.reserved, run.budget.cap = Decimal("0.0072"), Decimal("0.01")
    found = forecast(run, now)
    assert found.cost == pytest.approx(0.0064)
    assert found.first.name == "all"
