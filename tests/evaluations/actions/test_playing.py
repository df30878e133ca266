"""Rollouts on a desktop, told by a worker on paper: verdicts, faults, memo, completion, money."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from console.actions.budgets import change_workspace_cap
from console.actor import Actor
from console.models import LedgerEntry, User, Workspace
from console.money import money
from desktops.actions import report as report_of_worker
from desktops.actions.states import let_go
from desktops.models import Assignment, Computer, State
from evaluations.models import Evaluation, Rollout, Verdict
from evaluations.report import report
from runs.supervisor import one_pass
from tests.evaluations.conftest import NewEvaluation
from tests.factories import StateFactory
from tests.runs.paper_worker import SHOT, PaperWorker

pytestmark = pytest.mark.django_db


def fresh(evaluation: Evaluation) -> Evaluation:
    return Evaluation.objects.get(pk=evaluation.pk)


def counts(evaluation: Evaluation) -> tuple[int, ...]:
    row = fresh(evaluation)
    return row.pending, row.running, row.done, row.error, row.valid, row.success


def play_all(worker: PaperWorker, reward: float = 1.0) -> None:
    while True:
        one_pass()
        offered = worker.offered()
        if not offered:
            return
        for assignment in offered:
            worker.play(assignment, reward)


def test_each_rollout_is_played_judged_and_the_set_completes(
    new_evaluation: NewEvaluation, worker: PaperWorker
) -> None:
    evaluation = new_evaluation()
    assert counts(evaluation) == (2, 0, 0, 0, 0, 0)
    one_pass()
    first, second = worker.offered()
    assert (first.kind, first.payload["max_steps"]) == ("rollout", 2)
    assert counts(evaluation) == (0, 2, 0, 0, 0, 0)
    worker.play(first, reward=1.0)
    assert counts(evaluation) == (0, 1, 1, 0, 1, 1)  # stored the moment it arrived
    worker.play(second, reward=0.25)
    done = fresh(evaluation)
    assert (done.status, done.completed_at is not None) == ("complete", True)
    rows = Rollout.objects.order_by("number")
    assert [(row.outcome, row.reward) for row in rows] == [("success", 1.0), ("fail", 0.25)]
    assert list(Verdict.objects.values_list("judge", flat=True)) == ["osworld@v1"] * 2
    assert not Computer.objects.held().exists()


def test_an_open_set_is_played_and_not_complete(new_evaluation: NewEvaluation, worker: PaperWorker) -> None:
    evaluation = new_evaluation(open=True)
    play_all(worker)
    assert (fresh(evaluation).status, counts(evaluation)) == ("open", (0, 0, 2, 0, 2, 2))


def test_a_fault_is_played_again_and_never_a_fail(new_evaluation: NewEvaluation, worker: PaperWorker) -> None:
    evaluation = new_evaluation(tasks=("task-1",))
    for number in (1, 2, 3):
        one_pass()
        (assignment,) = worker.offered()
        assert assignment.epoch == number
        worker.break_down(assignment)
    row = Rollout.objects.get()
    assert (row.status, row.verifier, row.outcome) == ("error", "not_checked", None)
    assert (row.tries, row.invalid_reasons) == (3, ["desktop_lost"])
    assert (fresh(evaluation).status, counts(evaluation)) == ("complete", (0, 0, 0, 1, 0, 0))


def test_a_verdict_stands_whatever_broke_after_it(new_evaluation: NewEvaluation, worker: PaperWorker) -> None:
    new_evaluation(tasks=("task-1",))
    one_pass()
    (assignment,) = worker.offered()
    computer = worker.start(assignment)
    worker.verdict(assignment, 1.0)
    worker.stop(assignment, computer)
    worker.end(assignment, ok=False, invalid_reasons=["worker_fault"])
    assert Rollout.objects.get().outcome == "success"


def test_a_desktop_that_was_taken_over_has_no_verdict(
    new_evaluation: NewEvaluation, worker: PaperWorker
) -> None:
    evaluation = new_evaluation(tasks=("task-1",))
    one_pass()
    (assignment,) = worker.offered()
    computer = worker.start(assignment)
    worker.say(assignment, {"kind": "taken_over", "by": "Mia Member"})
    worker.stop(assignment, computer)
    worker.end(assignment, ok=False, invalid_reasons=["human_intervened"])
    row = Rollout.objects.get()
    assert (row.status, row.verifier, row.invalid_reasons) == ("done", "invalid", ["human_intervened"])
    assert fresh(evaluation).status == "complete"


def test_a_lost_worker_s_rollout_is_played_by_another(
    new_evaluation: NewEvaluation, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    new_evaluation(tasks=("task-1",))
    one_pass()
    (lost,) = worker.offered()
    other = PaperWorker(workspace, owner, name="second")
    Assignment.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    report_of_worker.disconnect(worker=worker.worker, connection=worker.connection)
    one_pass()
    one_pass()
    (again,) = other.offered()
    assert (again.subject, again.epoch) == (lost.subject, 2)
    worker.connect()
    late = worker.say(lost, {"kind": "attempt_ended", "ok": True})
    assert [problem.code for problem in late.refused] == ["stale_epoch"]


def test_a_known_verdict_is_taken_unbilled(new_evaluation: NewEvaluation, worker: PaperWorker) -> None:
    first = new_evaluation("first")
    play_all(worker)
    spent = LedgerEntry.objects.count()
    second = new_evaluation("second")
    one_pass()
    assert worker.offered() == []
    row = fresh(second)
    assert (row.status, row.memo_hits, row.success) == ("complete", 2, 2)
    hit = Rollout.objects.filter(evaluation=second).first()
    assert hit is not None
    assert hit.source is not None
    assert hit.source.evaluation_id == first.pk
    assert LedgerEntry.objects.count() == spent
    (block,) = report(row)
    assert (block.memo_hits, block.billed, block.cost) == (2, 0, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"memo": False},
        {"profile": "train"},
        {"policy": "another"},
        {"seeds": [1]},
        {"repro_class": "unrepeatable"},
    ],
)
def test_what_is_not_the_same_or_not_to_be_remembered_is_played(
    changes: dict[str, Any], new_evaluation: NewEvaluation, worker: PaperWorker
) -> None:
    new_evaluation("first", tasks=("task-1",))
    play_all(worker)
    new_evaluation("second", tasks=("task-1",), **changes)
    one_pass()
    assert len(worker.offered()) == 1


def test_a_fault_and_another_workspace_s_verdict_are_not_remembered(
    new_evaluation: NewEvaluation, worker: PaperWorker, other_workspace: Workspace
) -> None:
    new_evaluation("first", tasks=("task-1",))
    play_all(worker)
    Rollout.objects.update(workspace=other_workspace)
    new_evaluation("second", tasks=("task-1",))
    one_pass()
    assert len(worker.offered()) == 1
    for _ in range(3):
        worker.break_down(worker.offered()[0])
        one_pass()
    new_evaluation("third", tasks=("task-1",))
    one_pass()
    assert len(worker.offered()) == 1


def test_of_two_at_once_the_second_waits_for_the_first(
    new_evaluation: NewEvaluation, worker: PaperWorker
) -> None:
    new_evaluation("first", tasks=("task-1",))
    second = new_evaluation("second", tasks=("task-1",))
    one_pass()
    (assignment,) = worker.offered()
    worker.play(assignment, reward=0.0)
    one_pass()
    assert worker.offered() == []
    assert (fresh(second).status, fresh(second).memo_hits, fresh(second).success) == ("complete", 1, 0)


def test_a_rollout_starts_from_a_saved_desktop_on_its_worker_alone(
    new_evaluation: NewEvaluation,
    worker: PaperWorker,
    workspace: Workspace,
    owner: User,
    material: dict[str, Any],
) -> None:
    PaperWorker(workspace, owner, name="roomier", slots=9)
    state = saved(worker, material)
    new_evaluation(tasks=("task-1",), environment={"kind": "sandbox", "state": str(state.pk)})
    one_pass()
    (assignment,) = worker.offered()
    assert assignment.payload["fork"]["state"] == state.name
    worker.play_fork(assignment)
    assert Rollout.objects.get().outcome == "success"


def test_what_starts_from_a_desktop_that_is_gone_ends_without_a_verdict(
    new_evaluation: NewEvaluation, worker: PaperWorker, material: dict[str, Any]
) -> None:
    state = saved(worker, material)
    evaluation = new_evaluation(environment={"kind": "sandbox", "state": str(state.pk)})
    State.objects.update(status="gone")
    one_pass()
    assert (fresh(evaluation).status, counts(evaluation)) == ("complete", (0, 0, 0, 2, 0, 0))


def test_a_saved_desktop_that_rollouts_start_from_is_kept(
    new_evaluation: NewEvaluation, worker: PaperWorker, material: dict[str, Any], owner: User
) -> None:
    state = saved(worker, material)
    new_evaluation(environment={"kind": "sandbox", "state": str(state.pk)})
    with pytest.raises(Exception, match="evaluation first, whose rollouts start from it"):
        let_go(state, actor=Actor.person(owner))


def test_nothing_is_begun_that_the_workspace_cannot_pay(
    new_evaluation: NewEvaluation, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    evaluation = new_evaluation()
    change_workspace_cap(workspace, cap=Decimal(0), actor=Actor.person(owner))
    one_pass()
    assert (worker.offered(), counts(evaluation)) == ([], (2, 0, 0, 0, 0, 0))
    change_workspace_cap(workspace, cap=None, actor=Actor.person(owner))
    play_all(worker)
    row = Evaluation.objects.select_related("budget").get()
    (block,) = report(row)
    assert block.cost == row.budget.spent == sum(e.cost or 0 for e in LedgerEntry.objects.all())
    assert row.budget.reserved == 0


def saved(worker: PaperWorker, material: dict[str, Any]) -> State:
    attestation = {"screenshot": SHOT, "processes": ["Xvnc"], "files": SHOT}
    found: State = StateFactory(
        worker=worker.worker,
        origin="saved",
        template_version=material["template_version"],
        attestation=attestation,
        digest=f"sha256:{'c' * 64}",
    )
    return found


def test_the_budget_page_tells_what_evaluations_spent(
    new_evaluation: NewEvaluation, worker: PaperWorker, owner: User, client_for: Callable[[User], Client]
) -> None:
    new_evaluation(tasks=("task-1",))
    one_pass()
    (assignment,) = worker.offered()
    computer = worker.start(assignment, seconds_ago=30)
    worker.verdict(assignment, 1.0)
    worker.stop(assignment, computer)
    worker.end(assignment)
    cost = LedgerEntry.objects.get().cost
    assert cost
    page = client_for(owner).get("/w/lab/budget/").content.decode()
    assert f"Spent on evaluations</dt><dd>{money(cost)}</dd>" in page
