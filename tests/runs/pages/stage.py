"""Runs as the pages' tests need them: in any state, with attempts, desktops, steps and events."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from console.models import User, Workspace
from runs.models import Attempt, Run, Task
from tests.factories import (
    AttemptTryFactory,
    EventFactory,
    RunFactory,
    StepFactory,
    TaskSetFactory,
    recount,
)


def a_run(workspace: Workspace, *, tasks: int = 2, copies: int = 1, rounds: int = 1, **fields: Any) -> Run:
    """Playing, unless `status` says otherwise; no attempts yet, all rounds counted as stored."""
    task_set = TaskSetFactory(workspace=workspace, name=f"set-{tasks}", tasks=tasks)
    run: Run = RunFactory(
        workspace=workspace,
        task_set=task_set,
        planned=tasks * copies * rounds,
        rounds_created=rounds,
        **{"status": Run.Status.RUNNING, **fields},
    )
    run.spec.update(parallel_copies=copies, rounds=rounds, kind=run.kind)
    run.save(update_fields=["spec"])
    return run


def play(run: Run, *, finished: int | None = None, success: bool = True) -> list[Attempt]:
    """Store all attempts; the first `finished` (default all) have ended with a verdict."""
    tasks = list(Task.objects.filter(pk__in=run.task_ids).order_by("position"))
    each = run.planned // len(tasks)
    finished = run.planned if finished is None else finished
    now = timezone.now()
    rows = []
    for number in range(1, run.planned + 1):
        ended = number <= finished
        rows.append(
            Attempt(
                workspace=run.workspace,
                run=run,
                number=number,
                task=tasks[(number - 1) // each],
                round=1,
                copy=1,
                fork=1,
                **(
                    {
                        "status": "done",
                        "verifier": "valid",
                        "reward": float(success),
                        "tries": 1,
                        "steps": 1,
                        "started_at": now,
                        "ended_at": now,
                    }
                    if ended
                    else {}
                ),
            )
        )
    made = Attempt.objects.bulk_create(rows)
    recount(run)
    return made


def with_steps(attempt: Attempt, *actions: dict[str, Any], prefix: bool = False, **fields: Any) -> Attempt:
    """A try on a desktop that is gone, with these steps."""
    one = AttemptTryFactory(attempt=attempt, **fields)
    for action in actions:
        StepFactory(attempt_try=one, action=action, prefix=prefix)
    attempt.computer = one.computer
    attempt.save(update_fields=["computer"])
    return attempt


def end(run: Run, **fields: Any) -> Run:
    """The last write a run gets: after it, the database refuses changes."""
    run.refresh_from_db()
    for name, value in {
        "status": Run.Status.COMPLETED,
        "stop_reason": Run.StopReason.ALL_TASKS_DONE,
        "ended_at": timezone.now(),
        **fields,
    }.items():
        setattr(run, name, value)
    run.save()
    return run


def log(run: Run, owner: User) -> None:
    """One event of each kind the log may hold."""
    of_run: list[tuple[str, dict[str, Any]]] = [
        ("run_created", {"actor": str(owner), "planned": run.planned}),
        ("run_status", {"old": "queued", "new": "preparing", "reason": "", "actor": "", "detail": ""}),
        ("round_created", {"round": 1, "attempts": run.planned}),
        (
            "prefix_offered",
            {
                "task": "task-1",
                "round": 1,
                "parallel_copy": 1,
                "try_number": 2,
                "worker": "yard-a",
                "prefix": 1,
            },
        ),
        (
            "prefix_saved",
            {
                "digest": "sha256:0",
                "size_bytes": 2 * 10**8,
                "seconds": 0.4,
                "screenshot": "0" * 64,
                "prefix": 1,
            },
        ),
        ("prefix_ended", {"status": "saved", "reasons": [], "tries": 2, "prefix": 1}),
        ("prefix_released", {"prefix": 1}),
        ("run_stopping", {"reason": "time_cap_reached", "actor": "Deskyard", "detail": ""}),
    ]
    of_attempt: list[tuple[str, dict[str, Any]]] = [
        ("attempt_offered", {"try_number": 1, "worker": "yard-a"}),
        ("setup_awaited", {}),
        ("computer_started", {"computer": "c-0001", "worker": "yard-a"}),
        ("computer_ready", {"computer": "c-0001", "seconds": 0.4}),
        ("setup_done", {"seconds": 0.2, "steps": 1, "from_state": ""}),
        ("state_saved", {"name": "setup-0", "digest": "sha256:0", "size_bytes": 2 * 10**8, "seconds": 0.4}),
        ("forked", {"state": "prefix-0", "differences": [], "seconds": 0.1}),
        ("desktop_taken_over", {"computer": "c-0001", "by": str(owner)}),
        ("step", {"step": 1, "action": "click", "took_ms": 40, "screenshot": "0" * 64}),
        ("attempt_verifying", {}),
        ("attempt_verdict", {"reward": 1.0, "outcome": "success"}),
        ("try_failed", {"try_number": 1, "reasons": ["desktop_lost"], "detail": ""}),
        (
            "attempt_ended",
            {"status": "done", "verifier": "valid", "outcome": "success", "reasons": [], "tries": 1},
        ),
        ("computer_stopped", {"computer": "c-0001", "reason": "", "seconds": 2.0, "cost_usd": "0.0001"}),
    ]
    for kind, data in of_run:
        EventFactory(run=run, kind=kind, data=data)
    for kind, data in of_attempt:
        EventFactory(run=run, kind=kind, data=data, attempt_number=1)
