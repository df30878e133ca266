"""Forecasts: from history where there is some, else from a guess that is stated; the caps end the run first."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from console.models import User, Workspace
from desktops.models import TemplateVersion
from runs.pages.wizard.draft import Draft
from runs.pages.wizard.forecast import Forecast, forecast
from tests import factories


@pytest.fixture
def version(material: dict[str, Any]) -> TemplateVersion:
    version: TemplateVersion = material["template_version"]
    version.rate_usd_per_hour = Decimal("0.36")
    return version


def _forecast(workspace: Workspace, owner: User, version: TemplateVersion, **changes: Any) -> Forecast:
    draft = Draft(workspace, owner)
    draft.document = factories.document("basics", ["task-1", "task-2"], **changes)
    return forecast(workspace, version, draft)


def _history(workspace: Workspace, seconds: float, count: int, faulty: int = 0, days: int = 1) -> None:
    run = factories.RunFactory(workspace=workspace)
    ended = timezone.now() - timedelta(days=days)
    for place in range(count):
        state = "faulty" if place < faulty else "valid"
        factories.AttemptFactory(
            run=run, **{state: True}, started_at=ended - timedelta(seconds=seconds), ended_at=ended
        )
    factories.recount(run)


def test_without_history_the_guess_is_stated(
    workspace: Workspace, owner: User, version: TemplateVersion
) -> None:
    expected = _forecast(workspace, owner, version)
    assert expected.pace.seconds == 12  # 10 s around it, and one action of 2 s in each recipe
    assert not expected.pace.from_history
    assert (
        "no history on basic@1 yet: 10 s around an attempt and 2 s for each action are assumed"
        in expected.pace.basis
    )


def test_history_of_the_same_version_is_used(
    workspace: Workspace, owner: User, version: TemplateVersion
) -> None:
    _history(workspace, seconds=100, count=10, faulty=1)
    expected = _forecast(workspace, owner, version, rounds=5, spend_cap_usd="5.00")
    assert expected.pace.seconds == pytest.approx(100, abs=0.1)
    assert expected.pace.coverage == 0.9
    assert expected.whole.attempts == 10
    assert expected.whole.cost == pytest.approx(Decimal("0.1"), abs=Decimal("0.001"))
    assert expected.verdict == "Runs until every attempt has finished."


def test_too_little_or_too_old_history_is_none(
    workspace: Workspace, owner: User, version: TemplateVersion
) -> None:
    _history(workspace, seconds=100, count=4)
    _history(workspace, seconds=100, count=10, days=40)
    assert not _forecast(workspace, owner, version).pace.from_history


def test_the_cap_that_comes_first_is_named(
    workspace: Workspace, owner: User, version: TemplateVersion
) -> None:
    _history(workspace, seconds=100, count=10)
    spend = _forecast(workspace, owner, version, rounds=50, spend_cap_usd="0.20", time_cap_minutes=1440)
    assert spend.first.what == "the spend cap of $0.20"
    assert spend.first.attempts == pytest.approx(20, abs=1)
    assert spend.first.cost <= Decimal("0.20")
    time = _forecast(workspace, owner, version, rounds=50, spend_cap_usd="90.00", time_cap_minutes=2)
    assert time.first.what == "the time cap of 2 min"
    assert time.first.attempts <= 8
    target = _forecast(
        workspace, owner, version, rounds=50, spend_cap_usd="90", time_cap_minutes=1440, stop_after_valid=5
    )
    assert (target.first.what, target.first.attempts) == ("5 valid attempts", 5)


def test_connected_workers_with_the_image_decide_how_many_play_at_once(
    workspace: Workspace, owner: User, version: TemplateVersion
) -> None:
    assert _forecast(workspace, owner, version, rounds=50).at_once == workspace.run_parallelism
    factories.WorkerFactory(workspace=workspace, slots=3)
    factories.WorkerFactory(workspace=workspace, slots=5, paused=True)
    factories.WorkerFactory(workspace=workspace, slots=5, images=[])
    expected = _forecast(workspace, owner, version, rounds=50)
    assert (expected.at_once, expected.hosts) == (3, 1)


@pytest.mark.parametrize("cap", [None, "", "ten", "0", "0.001", "NaN", "1e9"])
def test_a_cap_that_is_none_does_not_break_the_forecast(
    workspace: Workspace, owner: User, version: TemplateVersion, cap: str | None
) -> None:
    assert _forecast(workspace, owner, version, spend_cap_usd=cap).cap is None


def test_the_largest_run_is_forecast(workspace: Workspace, owner: User, version: TemplateVersion) -> None:
    expected = _forecast(
        workspace, owner, version, parallel_copies=8, fork_copies=8, prefix_steps=1, rounds=50
    )
    assert expected.planned == 6400
    assert expected.first.is_cap
