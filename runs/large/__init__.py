"""A run of any size that nobody played, with all of its rows, made by the database itself: for benches.

Every figure is drawn from the attempt's number, so that one size always gives the same run. As in life, attempts are
stored round by round, a faulty try is played again, each try has a desktop with a ledger entry, and the log tells it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final

from django.db import connection, transaction
from django.utils import timezone

from console.actions.budgets import open_budget
from console.models import Budget, Workspace
from desktops.models import Template, TemplateVersion, Worker
from runs import limits
from runs.models import Run, Task, TaskSet
from runs.tallies import KEPT, VALUES

from .rows import ROWS, TRIES, insert

TASK_SET: Final = "large-run"
WORKERS: Final = 8
RATE: Final = Decimal("0.06")
LASTED: Final = timedelta(hours=23)
# Of a thousand attempts: those with a verdict, at once or after a second try (see rows.TRIES).
WITH_VERDICT: Final = 945
CUT_OFF: Final = 0.02  # the share of the run that its time cap cut off
LIFE: Final = 8  # events of a try that goes well, besides its steps
# Events that are not an attempt's own.
OF_THE_RUN: Final = 3


@dataclass(frozen=True)
class Shape:
    tasks: int = limits.TASKS.high
    copies: int = limits.PARALLEL_COPIES.high
    forks: int = limits.FORK_COPIES.high
    rounds: int = limits.ROUNDS.high
    events: int = 10_000_000

    @property
    def a_round(self) -> int:
        return self.tasks * self.copies * self.forks

    @property
    def attempts(self) -> int:
        return self.a_round * self.rounds

    @property
    def played(self) -> int:
        """Attempts that were played before the run was cut off."""
        return max(1, int(self.attempts * (1 - CUT_OFF)))

    @property
    def steps(self) -> float:
        """Steps of an attempt with a verdict, on average: what brings the log to about `events`."""
        told = self.played * (0.945 * LIFE + 0.025 * 4 + 0.055 * 12)
        return max(0.0, (self.events - told) / (self.played * WITH_VERDICT / 1000))


def make(workspace: Workspace, shape: Shape, name: str, progress: Callable[[str], None]) -> Run:
    """Store the run. Needs a database role that may switch off triggers; minutes for the largest."""
    run = _run(workspace, shape, name)
    facts = _facts(run, shape)
    with _no_triggers():
        for number in range(1, shape.rounds + 1):
            with transaction.atomic():
                _round(run, facts, number)
            progress(f"round {number} of {shape.rounds}")
        with transaction.atomic():
            _end(run, shape)
            progress("totals")
            _fill_tallies(run)
    with connection.cursor() as cursor:
        progress("statistics")
        cursor.execute(
            "VACUUM (ANALYZE) runs_attempt, runs_attempttry, runs_step, runs_event, runs_noverdict, runs_tasktally, "
            "runs_reasontally, desktops_assignment, desktops_computer, desktops_computertally, console_ledgerentry, "
            "console_ledgertally, runs_run"
        )
    run.refresh_from_db()
    return run


@contextlib.contextmanager
def _no_triggers() -> Iterator[None]:
    """Rows that refer to each other are made together, and totals are filled once at the end."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        try:
            yield
        finally:
            cursor.execute("RESET session_replication_role")


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def _run(workspace: Workspace, shape: Shape, name: str) -> Run:
    with transaction.atomic():
        workspace = Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
        workspace.last_run_number += 1
        workspace.save(update_fields=["last_run_number"])
        tasks = _tasks(workspace, shape.tasks)
        version = TemplateVersion.objects.filter(template__workspace=workspace, status="published").first()
        version = version or _template(workspace)
        started = timezone.now() - LASTED - timedelta(minutes=1)
        spec: dict[str, Any] = {
            "kind": "evaluation",
            "name": name,
            "task_set": TASK_SET,
            "tasks": [task.task_id for task in tasks],
            "template": str(version),
            "parallel_copies": shape.copies,
            "fork_copies": shape.forks,
            "prefix_steps": 1 if shape.forks > 1 else 0,
            "max_steps": limits.MAX_STEPS.high,
            "rounds": shape.rounds,
            "spend_cap_usd": str(limits.SPEND_CAP_MAX),
            "time_cap_minutes": int(LASTED.total_seconds() / 60),
            "stop_after_valid": None,
            "model": "made-up",
        }
        return Run.objects.create(
            workspace=workspace,
            number=workspace.last_run_number,
            name=name,
            kind=Run.Kind.EVALUATION,
            status=Run.Status.COMPLETED,  # from the start: a supervisor leaves it alone
            stop_reason=Run.StopReason.TIME_CAP_REACHED,
            spec=spec,
            task_ids=[task.pk for task in tasks],
            task_set=tasks[0].task_set,
            template_version=version,
            budget=open_budget(workspace=workspace, cap=limits.SPEND_CAP_MAX),
            planned=shape.attempts,
            created_via="make_large_run",
            started_at=started,
            ended_at=started + LASTED,
            time_cap_minutes=spec["time_cap_minutes"],
        )


def _tasks(workspace: Workspace, count: int) -> list[Task]:
    """The set of made-up tasks: as many as asked for at least."""
    task_set, _ = TaskSet.objects.get_or_create(
        workspace=workspace,
        name=TASK_SET,
        version=1,
        defaults={"title": "Made-up tasks", "digest": _digest(TASK_SET)},
    )
    known = task_set.tasks.count()
    Task.objects.bulk_create(
        Task(
            task_set=task_set,
            task_id=f"made-up-{place:03d}",
            position=place,
            title=f"Made-up task {place}",
            instruction=f"Do what made-up task {place} asks for.",
            related_apps=["os"],
            templates=["basic"],
            document={"id": f"made-up-{place:03d}", "instruction": f"Do what made-up task {place} asks for."},
            digest=_digest(f"made-up {place}"),
            recipe=[{"action": "done"}],
            recipe_digest=_digest("done"),
        )
        for place in range(known + 1, count + 1)
    )
    return list(task_set.tasks.select_related("task_set").order_by("position")[:count])


def _template(workspace: Workspace) -> TemplateVersion:
    template, _ = Template.objects.get_or_create(
        workspace=workspace, name="made-up", defaults={"title": "Made-up template"}
    )
    return TemplateVersion.objects.create(
        template=template,
        version=1,
        status=TemplateVersion.Status.PUBLISHED,
        digest=_digest("made-up template"),
        published_at=timezone.now(),
    )


def _facts(run: Run, shape: Shape) -> dict[str, Any]:
    """What the statements of a round are told; `computer` and `seq` count on from round to round."""
    workers = [
        Worker.objects.get_or_create(workspace=run.workspace, name=f"made-up-{n}", defaults={"slots": 8})[
            0
        ].pk
        for n in range(1, WORKERS + 1)
    ]
    return {
        "run": run.pk,
        "workspace": run.workspace_id,
        "budget": run.budget_id,
        "version": run.template_version_id,
        "tasks": run.task_ids,
        "workers": workers,
        "started": run.started_at,
        "lasted": LASTED,
        "shape": shape,
        "planned": shape.attempts,
        "played": shape.played,
        "copies": shape.copies,
        "forks": shape.forks,
        "a_round": shape.a_round,
        "fork_method": "replay" if shape.forks > 1 else "",
        "steps": shape.steps,
        "rate": RATE,
        "computer": run.workspace.last_computer_number,
        "seq": 0,
    }


def _round(run: Run, facts: dict[str, Any], number: int) -> None:
    shape: Shape = facts["shape"]
    told = {name: value for name, value in facts.items() if name != "shape"}
    told |= {
        "round": number,
        "first": (number - 1) * shape.a_round + 1,
        "last": number * shape.a_round,
    }
    with connection.cursor() as cursor:
        cursor.execute(TRIES, told)
        cursor.execute("ANALYZE made")
        for model, columns, source in ROWS:
            statement, defaults = insert(model, columns, source)
            cursor.execute(statement, told | defaults)
        facts["seq"] += cursor.rowcount
        cursor.execute("SELECT count(*) FROM made WHERE tries > 0")
        facts["computer"] += cursor.fetchone()[0]
    Workspace.objects.filter(pk=run.workspace_id).update(last_computer_number=facts["computer"])
    Run.objects.filter(pk=run.pk).update(rounds_created=number, last_seq=facts["seq"])


def _end(run: Run, shape: Shape) -> None:
    """Counters, money and the last words of the log, counted from the rows themselves."""
    told: dict[str, Any] = {"run": run.pk, "lasted": LASTED}
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_event (run_id, seq, at, kind, version, data)
            SELECT id, last_seq + line, started_at + %(lasted)s, told.kind, 1, data FROM runs_run, (VALUES
              (1, 'run_created', jsonb_build_object('actor', 'make_large_run', 'planned', %(planned)s::int)),
              (2, 'run_stopping', '{"reason": "time_cap_reached", "actor": "the supervisor", "detail": ""}'),
              (3, 'run_status', '{"old": "running", "new": "completed", "reason": "time_cap_reached",
                "actor": "the supervisor", "detail": ""}')
            ) AS told (line, kind, data) WHERE runs_run.id = %(run)s
            """,
            told | {"planned": shape.attempts},
        )
        cursor.execute(
            """
            UPDATE runs_run SET last_seq = last_seq + %(told)s, done = c.done, error = c.error,
              cancelled = c.cancelled, valid = c.valid, invalid = c.invalid, success = c.success
            FROM (SELECT count(*) FILTER (WHERE status = 'done') AS done,
                count(*) FILTER (WHERE status = 'error') AS error,
                count(*) FILTER (WHERE status = 'cancelled') AS cancelled,
                count(*) FILTER (WHERE verifier = 'valid') AS valid,
                count(*) FILTER (WHERE verifier = 'invalid') AS invalid,
                count(*) FILTER (WHERE outcome = 'success') AS success
              FROM runs_attempt WHERE run_id = %(run)s) AS c WHERE id = %(run)s
            """,
            told | {"told": OF_THE_RUN},
        )
        cursor.execute("SELECT sum(cost) FROM console_ledgerentry WHERE budget_id = %s", [run.budget_id])
        spent = cursor.fetchone()[0] or Decimal(0)
    Budget.objects.filter(pk=run.budget_id).update(spent=spent)
    root = Budget.objects.select_for_update().get(workspace=run.workspace, parent=None)
    root.spent += spent
    root.save(update_fields=["spent"])


def _fill_tallies(run: Run) -> None:
    """From the views that check_totals compares them with."""
    mine: dict[str, Any] = {"run_id": run.pk, "group": run.pk, "budget_id": run.budget_id}
    with connection.cursor() as cursor:
        for model, keys in KEPT.items():
            table = model._meta.db_table
            extra = ("workspace_id",) if table == "console_ledgertally" else ()
            names = ", ".join(f'"{name}"' for name in (*extra, *keys, *VALUES[model]))
            cursor.execute(
                f'INSERT INTO {table} ({names}) SELECT {names} FROM {table}_counted WHERE "{keys[0]}" = %s',  # noqa: S608
                [mine[keys[0]]],
            )
