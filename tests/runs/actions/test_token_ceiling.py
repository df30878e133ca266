"""A token's spend ceiling: what all its runs cost together never passes it, and it stops no run but its own."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.actions.budgets import root_budget
from console.actions.tokens import issue_token
from console.actor import Actor
from console.models import User, Workspace
from runs.actions.caps import CapsRejected
from runs.actions.retry import retry_invalid
from runs.models import Run
from runs.pages.sentences import what_next
from runs.supervisor import one_pass
from tests.factories import AttemptFactory, document
from tests.runs.paper_worker import PaperWorker

NewRun = Callable[..., Run]


@pytest.fixture
def bounded(workspace: Workspace, owner: User, material: dict[str, Any]) -> APIClient:
    """By a token that may spend a cent in all: ten minutes of one desktop."""
    token, secret = issue_token(
        workspace=workspace,
        user=owner,
        name="ci",
        scopes=["runs:write"],
        expires_in=None,
        actor=Actor.person(owner),
        spend_ceiling=Decimal("0.01"),
    )
    assert token.budget is not None
    assert token.budget.parent == root_budget(workspace)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
    return client


def play(worker: PaperWorker, passes: int) -> None:
    for _ in range(passes):
        one_pass()
        for assignment in worker.offered():
            computer = worker.start(assignment, seconds_ago=58)
            worker.verdict(assignment, 1.0)
            worker.stop(assignment, computer)
            worker.end(assignment)


def test_the_runs_of_a_token_stop_at_its_ceiling(
    bounded: APIClient, new_run: NewRun, worker: PaperWorker, workspace: Workspace
) -> None:
    wanted = document("basics", ["task-1"], rounds=8, spend_cap_usd="1.00")
    for _ in range(2):
        assert bounded.post("/v1/runs", wanted).status_code == 201
    play(worker, 20)
    first, second = Run.objects.order_by("number")
    assert (first.status, first.stop_reason) == ("completed", "all_tasks_done")
    assert (second.status, second.stop_reason) == ("completed", "budget_exceeded")
    assert second.stop_detail.startswith("The spend ceiling of the token ci is reached.")
    assert "Rerun it without that token." in what_next(second, manages=False)
    AttemptFactory(run=second, status="done", verifier="invalid", invalid_reasons=["desktop_lost"])
    with pytest.raises(CapsRejected) as refused:
        retry_invalid(second, actor=Actor.person(second.creator))
    assert [error.code for error in refused.value.errors] == ["token_ceiling_used_up"]
    spent = first.budget.spent + second.budget.spent
    ceiling = second.budget.parent
    assert ceiling is not None
    assert (ceiling.spent, ceiling.reserved) == (spent, 0)
    assert Decimal("0.009") < spent <= Decimal("0.01")

    own = new_run()
    play(worker, 4)
    own.refresh_from_db()
    assert own.stop_reason == "all_tasks_done"
    assert own.budget.parent == root_budget(workspace)
