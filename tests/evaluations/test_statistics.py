"""Each figure against a value that was published."""

from __future__ import annotations

import pytest

from evaluations.statistics import disagreement_at_most, paired_difference, pass_at_k, wilson


# Newcombe, Two-sided confidence intervals for the single proportion, Statistics in Medicine 17 (1998), table I.
@pytest.mark.parametrize(
    ("success", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilsons_interval(success: int, n: int, low: float, high: float) -> None:
    found = wilson(success, n)
    assert found is not None
    assert (found.low, found.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_of_nothing_there_is_no_interval() -> None:
    assert wilson(0, 0) is None


@pytest.mark.parametrize(
    ("n", "success", "k", "rate"),
    [
        (10, 3, 1, 0.3),  # k of 1 is the mean
        (10, 3, 5, 1 - 21 / 252),  # 1 - C(7, 5) / C(10, 5)
        (5, 1, 5, 1.0),
        (200, 0, 100, 0.0),
        (200, 199, 2, 1.0),
    ],
)
def test_pass_at_k_is_unbiased(n: int, success: int, k: int, rate: float) -> None:
    assert pass_at_k(n, success, k) == pytest.approx(rate)


def test_pass_at_k_needs_k_samples() -> None:
    assert pass_at_k(4, 4, 5) is None


# Student, The probable error of a mean, Biometrika 6 (1908): hours of sleep gained by two drugs, patient by patient.
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def by_task(values: list[float]) -> dict[str, list[float]]:
    return {f"task-{n}": [value] for n, value in enumerate(values)}


def test_the_paired_difference_is_students() -> None:
    found = paired_difference(by_task(FIRST), by_task(SECOND))
    assert found is not None
    assert found.interval is not None
    assert found.mean == pytest.approx(1.58)
    # t.test(extra ~ group, data = sleep, paired = TRUE) of R's own documentation: 0.7001142 to 2.4598858
    assert (found.interval.low, found.interval.high) == (
        pytest.approx(0.7001142, abs=1e-6),
        pytest.approx(2.4598858, abs=1e-6),
    )
    assert found.conclusive


def test_many_rows_of_one_task_count_as_one_observation() -> None:
    once = paired_difference(by_task(FIRST), by_task(SECOND))
    often = paired_difference(
        {task: values * 50 for task, values in by_task(FIRST).items()},
        {task: values * 50 for task, values in by_task(SECOND).items()},
    )
    assert once is not None
    assert often is not None
    assert often.interval is not None
    assert once.interval is not None
    assert often.interval.low == pytest.approx(once.interval.low)


def test_a_difference_that_may_be_none_is_inconclusive() -> None:
    found = paired_difference({"a": [1.0], "b": [0.0]}, {"a": [0.0], "b": [1.0]})
    assert found is not None
    assert not found.conclusive


def test_only_shared_tasks_are_compared_and_of_one_there_is_no_interval() -> None:
    found = paired_difference({"a": [0.0, 1.0], "b": [0.0]}, {"a": [1.0], "c": [1.0]})
    assert found is not None
    assert (found.tasks, found.mean, found.interval) == (1, 0.5, None)
    assert not found.conclusive
    assert paired_difference({"a": [1.0]}, {"b": [1.0]}) is None


# Hanley and Lippman-Hand, If nothing goes wrong, is everything all right?, JAMA 249 (1983): 1 - 0.05^(1/n).
@pytest.mark.parametrize(("n", "most"), [(10, 0.26), (20, 0.14), (100, 0.030)])
def test_after_no_disagreement_the_share_may_still_be_some(n: int, most: float) -> None:
    assert disagreement_at_most(0, n) == pytest.approx(most, abs=0.005)
    assert disagreement_at_most(n, n) == 1.0


@pytest.mark.parametrize(("tasks", "conclusive"), [(2, False), (5, False), (6, True)])
def test_a_few_tasks_that_differ_by_the_same_prove_nothing(tasks: int, conclusive: bool) -> None:
    first, second = ({f"task-{number}": [rate] for number in range(tasks)} for rate in (0.0, 0.5))
    found = paired_difference(first, second)
    assert found is not None
    assert (found.mean, found.conclusive) == (0.5, conclusive)
