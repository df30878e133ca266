"""Totals follow the rows, whatever changes them, in the same statement."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models import F
from django.utils import timezone

from console.actor import Actor
from console.models import LedgerEntry, LedgerTally, User, Workspace
from desktops.models import Computer, ComputerTally
from runs import tallies
from runs.actions.create import create_run
from runs.models import Attempt, NoVerdict, ReasonTally, Run, TaskTally
from runs.supervisor import one_pass
from tests.factories import AttemptFactory, AttemptTryFactory, ComputerFactory, RunFactory, document
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(workspace: Workspace, material: dict[str, Any]) -> Run:
    return RunFactory(workspace=workspace, status="running")


def totals(run: Run) -> dict[str, tuple[int, int, int]]:
    rows = TaskTally.objects.filter(run=run).values_list("task__task_id", "finished", "valid", "success")
    return {task: counts for task, *counts in rows}


def test_an_attempt_counts_once_it_has_ended(run: Run) -> None:
    attempt = AttemptFactory(run=run, status="verifying", verifier="valid", reward=1.0)
    assert totals(run) == {}
    Attempt.objects.filter(pk=attempt.pk).update(reward=0.5)
    assert totals(run) == {}
    Attempt.objects.filter(pk=attempt.pk).update(status="done")
    assert totals(run) == {"task-1": [1, 1, 0]}
    assert tallies.differences() == []


def test_one_statement_for_many_attempts_counts_them_all(run: Run) -> None:
    AttemptFactory.create_batch(4, run=run, faulty=True, invalid_reasons=["desktop_lost", "not_ready"])
    assert totals(run) == {"task-1": [4, 0, 0]}
    run.attempts.update(status="queued", reward=F("number") / 2.0)
    assert totals(run) == {"task-1": [0, 0, 0]}
    run.attempts.update(status="done", verifier="valid", invalid_reasons=[])
    assert totals(run) == {"task-1": [4, 4, 3]}
    assert tallies.differences() == []


def test_reasons_are_counted_and_found_by_number(run: Run) -> None:
    AttemptFactory(run=run, valid=True)
    both = AttemptFactory(run=run, faulty=True, invalid_reasons=["desktop_lost", "not_ready"])
    AttemptFactory(run=run, faulty=True)
    counts = dict(ReasonTally.objects.filter(run=run).values_list("reason", "count"))
    assert counts == {"desktop_lost": 2, "not_ready": 1}
    found = NoVerdict.objects.filter(run=run, reason="desktop_lost").order_by("number")
    assert list(found.values_list("number", flat=True)) == [2, 3]
    Attempt.objects.filter(pk=both.pk).update(status="queued", invalid_reasons=[], verifier="not_checked")
    assert ReasonTally.objects.get(run=run, reason="not_ready").count == 0
    assert not NoVerdict.objects.filter(attempt=both).exists()
    assert tallies.differences() == []


def test_computers_are_counted_by_their_group_and_worker(run: Run) -> None:
    one = AttemptTryFactory(attempt=AttemptFactory(run=run, valid=True))
    ComputerFactory(assignment=one.assignment, template_version=run.template_version, group=run.pk)
    tally = ComputerTally.objects.get(group=run.pk)
    assert (tally.started, tally.stopped) == (2, 1)
    Computer.objects.filter(group=run.pk).update(stopped_at=timezone.now())
    tally.refresh_from_db()
    assert (tally.started, tally.stopped) == (2, 2)
    assert tallies.differences() == []


def test_the_ledger_is_added_up_when_it_settles(run: Run) -> None:
    one = AttemptTryFactory(attempt=AttemptFactory(run=run, valid=True))
    entry = LedgerEntry.objects.create(
        workspace=run.workspace,
        budget=run.budget,
        subject=one.computer_id,
        rate_usd_per_hour=Decimal("0.06"),
        opened_at=timezone.now() - timedelta(seconds=3),
    )
    assert not LedgerTally.objects.exists()
    entry.settled_at, entry.seconds, entry.cost = timezone.now(), Decimal(3), Decimal("0.00005")
    entry.save()
    kept = LedgerTally.objects.values_list("span", "entries", "seconds", "cost").order_by("span")
    assert list(kept) == [(span, 1, Decimal(3), Decimal("0.00005")) for span in ("day", "slot")]
    assert tallies.differences() == []


def test_totals_go_with_their_run(run: Run) -> None:
    AttemptFactory(run=run, valid=True)
    AttemptFactory(run=run, faulty=True)
    run.delete()
    assert not TaskTally.objects.exists()
    assert not ReasonTally.objects.exists()
    assert not NoVerdict.objects.exists()


def test_a_whole_run_keeps_its_totals(workspace: Workspace, owner: User, material: dict[str, Any]) -> None:
    wanted = document("basics", ["task-1", "task-2"], rounds=2)
    run = create_run(workspace=workspace, document=wanted, actor=Actor.person(owner))
    worker = PaperWorker(workspace, owner)
    one_pass()
    for index in range(6):
        for assignment in worker.offered()[:1]:
            if index % 3:
                worker.play(assignment, reward=index % 2)
            else:
                worker.break_down(assignment)
        one_pass()
    assert tallies.differences() == []
    assert sum(finished for finished, _, _ in totals(run).values()) == Run.objects.get(pk=run.pk).finished


def test_the_command_names_what_differs(run: Run) -> None:
    AttemptFactory(run=run, valid=True)
    call_command("check_totals")
    TaskTally.objects.update(valid=7)
    with pytest.raises(CommandError, match="1 totals differ"):
        call_command("check_totals")


def test_a_total_that_is_missing_is_noticed(run: Run) -> None:
    AttemptFactory(run=run, valid=True)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM runs_tasktally")
    assert [(one.kept, one.counted) for one in tallies.differences()] == [(None, (1, 1, 1))]
