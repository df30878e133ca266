"""The report: a block for each judge, figures by their formulas, two sets compared."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from evaluations.models import Batch, Rollout
from evaluations.report import compare, report
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

from .conftest import NewEvaluation

pytestmark = pytest.mark.django_db


def play(worker: PaperWorker, rewards: dict[str, list[float]]) -> None:
    """By task, in the order of seeds."""
    left = {task: list(values) for task, values in rewards.items()}
    while True:
        one_pass()
        if not (offered := worker.offered()):
            return
        for assignment in sorted(offered, key=lambda one: Rollout.objects.get(pk=one.subject).number):
            task = Rollout.objects.get(pk=assignment.subject).spec["task"]
            worker.play(assignment, left[task].pop(0))


def test_the_figures_of_one_judge(new_evaluation: NewEvaluation, worker: PaperWorker) -> None:
    evaluation = new_evaluation(seeds=4)
    play(worker, {"task-1": [1, 1, 0, 0], "task-2": [1, 0, 0, 0]})
    (block,) = report(evaluation)
    assert (block.judge, block.all.n, block.all.valid, block.all.success) == ("osworld@v1", 8, 8, 3)
    assert (block.all.rate, block.coverage) == (0.375, 1.0)
    assert block.interval is not None
    assert (round(block.interval.low, 4), round(block.interval.high, 4)) == (0.1368, 0.6943)
    assert block.tasks["task-1"].rate == 0.5
    assert (block.seeds.groups, block.seeds.lowest, block.seeds.highest) == (4, 0.0, 1.0)
    # 1 - C(2,2)/C(4,2) = 5/6 and 1 - C(3,2)/C(4,2) = 1/2
    assert block.pass_at_k == pytest.approx({1: 0.375, 2: (5 / 6 + 1 / 2) / 2, 4: 1.0})


def test_rows_without_a_verdict_are_in_no_rate(new_evaluation: NewEvaluation, worker: PaperWorker) -> None:
    evaluation = new_evaluation()
    one_pass()
    good, bad = worker.offered()
    worker.play(good)
    for _ in range(3):
        worker.break_down(bad)
        one_pass()
        bad = next(iter(worker.offered()), bad)
    (block,) = report(evaluation)
    assert (block.all.ended, block.all.valid, block.all.rate, block.coverage) == (2, 1, 1.0, 0.5)


def test_before_anything_has_ended_there_is_no_rate(new_evaluation: NewEvaluation) -> None:
    (block,) = report(new_evaluation())
    assert (block.all.n, block.all.rate, block.coverage, block.interval) == (2, None, None, None)
    assert block.pass_at_k == {}


def test_judges_are_never_averaged(new_evaluation: NewEvaluation, worker: PaperWorker, add_to) -> None:
    evaluation = new_evaluation(tasks=("task-1",), open=True)
    add_to("first", "task-2")
    Batch.objects.filter(number=2).update(judge=f"swe-tests@sha256:{'a' * 64}")
    play(worker, {"task-1": [1], "task-2": [0]})
    assert [(block.judge.split("@")[0], block.all.rate) for block in report(evaluation)] == [
        ("osworld", 1.0),
        ("swe-tests", 0.0),
    ]


def test_two_sets_are_compared_over_the_tasks_that_both_have(
    new_evaluation: NewEvaluation, worker: PaperWorker, api, workspace
) -> None:
    first = new_evaluation("first", seeds=2)
    play(worker, {"task-1": [1, 0], "task-2": [0, 0]})
    second = new_evaluation("second", seeds=2, policy="better")
    play(worker, {"task-1": [1, 1], "task-2": [1, 0]})
    (found,) = compare(first, second)
    assert found.difference is not None
    assert (found.difference.tasks, found.difference.mean, found.difference.conclusive) == (2, 0.5, False)
    client: APIClient = api("evaluations:read")
    said = client.get("/preview/evaluations/first/report?against=second").json()
    assert said["comparisons"][0]["difference"]["conclusive"] is False
    assert client.get("/preview/evaluations/first/report?against=none").status_code == 404


def test_another_judges_verdicts_are_not_compared(new_evaluation: NewEvaluation) -> None:
    first, second = new_evaluation("first"), new_evaluation("second")
    Batch.objects.filter(evaluation=second).update(judge="osworld@v2")
    assert compare(first, second) == []
