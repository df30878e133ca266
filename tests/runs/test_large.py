"""The made-up run is like one that was played: its totals, counters, money and log agree with its rows."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import Sum
from django.test.utils import CaptureQueriesContext

from console.models import LedgerEntry, User, Workspace
from runs import large, tallies
from runs.models import Event, Run
from runs.supervisor import one_pass

pytestmark = pytest.mark.django_db(transaction=True)
SMALL: dict[str, Any] = {"tasks": 12, "copies": 2, "forks": 2, "rounds": 3, "events": 3_000}


def test_every_figure_is_what_the_rows_come_to(workspace: Workspace) -> None:
    call_command("make_large_run", workspace=workspace.slug, **SMALL)
    run = Run.objects.get(workspace=workspace)
    assert (run.planned, run.attempts.count()) == (144, 144)
    for status in ("done", "error", "cancelled"):
        assert getattr(run, status) == run.attempts.filter(status=status).count() > 0
    assert run.valid == run.attempts.filter(verifier="valid").count()
    assert run.success == run.attempts.filter(outcome="success").count() > 0
    assert tallies.differences() == []
    assert run.budget.spent == LedgerEntry.objects.aggregate(all=Sum("cost"))["all"]
    seqs = Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True)
    assert list(seqs) == list(range(1, run.last_seq + 1))
    assert 2_700 < run.last_seq < 3_300


def test_a_supervisor_that_looks_meanwhile_leaves_it_alone(workspace: Workspace) -> None:
    shape = large.Shape(**SMALL)
    run = large.make(workspace, shape, "made-up", lambda _: one_pass())
    assert (run.status, run.attempts.count()) == ("completed", shape.attempts)
    assert run.done + run.error + run.cancelled == shape.attempts


def test_its_pages_can_be_read(workspace: Workspace, owner: User, client_for: Any) -> None:
    call_command("make_large_run", workspace=workspace.slug, **SMALL)
    client = client_for(owner)
    for page in ("", "rollouts/", "computers/", "metrics/", "events/", "configuration/", "attempts/7/"):
        assert client.get(f"/w/lab/runs/1/{page}").status_code == 200, page


def test_an_impossible_size_is_refused(workspace: Workspace) -> None:
    with pytest.raises(CommandError, match="--tasks goes from 1 to 366"):
        call_command("make_large_run", workspace=workspace.slug, tasks=367)
    with pytest.raises(CommandError, match="no workspace"):
        call_command("make_large_run", workspace="nowhere")


def test_pages_ask_the_database_as_often_for_twice_the_run(
    workspace: Workspace, owner: User, client_for: Any, api: Any
) -> None:
    """Both are past what the progress grid draws attempt by attempt, and past what metrics look at one by one."""
    for rounds in (5, 10):
        shape = {**SMALL, "tasks": 60, "copies": 4, "forks": 1, "rounds": rounds, "events": 6_000 * rounds}
        call_command("make_large_run", workspace=workspace.slug, **shape)
    few, many = Run.objects.order_by("number")
    client, bearer = client_for(owner), api("runs:read")
    pages = ["", "rollouts/?status=error", "rollouts/?reason=desktop_lost", "computers/", "metrics/"]
    pages += ["events/?kind=problems", "configuration/", "attempts/7/"]
    client.get("/w/lab/runs/1/")  # the first request of each notes who was here
    bearer.get("/v1/runs")
    for page in pages:
        asked = [_queries(client, f"/w/lab/runs/{run.number}/{page}") for run in (few, many)]
        assert asked[0] == asked[1], page
    for path in ("attempts?outcome=fail", "attempts?limit=200", "events?kind=step&kind=try_failed"):
        asked = [_queries(bearer, f"/v1/runs/{run.pk}/{path}") for run in (few, many)]
        assert asked[0] == asked[1], path


def _queries(client: Any, path: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        assert client.get(path).status_code == 200, path
    return len(queries)
