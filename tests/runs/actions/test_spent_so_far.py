"""What a run has spent by now: it grows while its desktops run, and does not fall when one's end becomes known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from console.models import Budget
from console.spending import so_far
from runs.models import Run
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

NewRun = Callable[..., Run]


def spent(run: Run, now: datetime) -> Decimal:
    return so_far(run.workspace, [Budget.objects.get(pk=run.budget_id)], now)[run.budget_id].spent


@pytest.mark.parametrize("seconds", [0, 0.4, 4])
def test_it_does_not_fall_when_word_comes_that_a_desktop_ended_a_moment_ago(
    new_run: NewRun, worker: PaperWorker, seconds: float
) -> None:
    run = new_run()
    one_pass()
    first, _ = worker.offered()
    computer = worker.start(first, seconds_ago=30)
    now = timezone.now()
    before = spent(run, now)
    at = (now - timedelta(seconds=seconds)).isoformat()
    worker.say(first, {"kind": "computer_stopped", "computer": computer, "reason": "done", "at": at})
    assert Decimal(0) < before <= spent(run, now)


def test_it_grows_while_a_desktop_runs(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run()
    one_pass()
    worker.start(worker.offered()[0], seconds_ago=30)
    now = timezone.now()
    assert spent(run, now) < spent(run, now + timedelta(seconds=10))
