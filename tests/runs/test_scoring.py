from __future__ import annotations

import math

import pytest

from runs import scoring
from runs.scoring import TaskTotal, rate, t_quantile, wilson


@pytest.mark.parametrize(
    ("df", "expected"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (4, 2.7764), (10, 2.2281), (19, 2.0930), (365, 1.9665)],
)
def test_t_quantiles_agree_with_the_tables(df, expected):
    assert t_quantile(0.975, df) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("p", "df"), [(0.975, 0), (0.4, 3), (1.0, 3)])
def test_a_quantile_that_does_not_exist_is_refused(p, df):
    with pytest.raises(ValueError, match="quantile"):
        t_quantile(p, df)


@pytest.mark.parametrize(
    ("success", "n", "low", "high"), [(7, 7, 0.6457, 1.0), (0, 10, 0.0, 0.2775), (5, 8, 0.3057, 0.8632)]
)
def test_wilsons_interval_agrees_with_published_values(success, n, low, high):
    assert wilson(success, n) == pytest.approx((low, high), abs=1e-4)


def test_an_interval_of_no_trials_is_refused():
    with pytest.raises(ValueError, match="trial"):
        wilson(0, 0)


def test_without_a_valid_attempt_there_is_no_rate():
    found = rate({1: TaskTotal(finished=3, valid=0, success=0)})
    assert (found.rate, found.low, found.high) == (None, None, None)
    assert (found.worst, found.best, found.coverage) == (0.0, 1.0, 0.0)


def test_one_task_gets_wilsons_interval():
    found = rate({1: TaskTotal(8, 8, 5)})
    assert (found.low, found.high) == wilson(5, 8)
    assert found.method == "Wilson"


def test_the_interval_counts_tasks_not_attempts():
    """Ten times the attempts of the same tasks, with the same rates, say no more about the rate over tasks."""
    few = rate({task: TaskTotal(2, 2, task % 2 * 2) for task in range(8)})
    many = rate({task: TaskTotal(20, 20, task % 2 * 20) for task in range(8)})
    assert few.rate == many.rate == 0.5
    assert few.low == pytest.approx(many.low)
    half = t_quantile(0.975, 7) * math.sqrt(8 / 7 * 8) / 16
    assert few.high == pytest.approx(0.5 + half)


def test_all_succeeding_is_not_a_certainty():
    found = rate({task: TaskTotal(4, 4, 4) for task in range(6)})
    assert found.rate == 1.0
    assert found.low == pytest.approx(wilson(6, 6)[0])
    assert found.high == pytest.approx(1.0)


def test_attempts_without_a_verdict_span_worst_to_best():
    found = rate({1: TaskTotal(10, 8, 4), 2: TaskTotal(10, 8, 6)})
    assert found.rate == 10 / 16
    assert (found.worst, found.best) == (10 / 20, 14 / 20)
    assert found.coverage == 16 / 20
    assert found.success + found.fail + found.no_verdict == found.finished


def test_counts_name_every_column():
    assert set(scoring.Counts.__annotations__) >= {"planned", "queued", "valid", "invalid", "not_checked"}
