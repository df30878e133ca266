"""One signed manifest a run: what was asked, what it resolved to, every verdict with its evidence, what it cost.

An in-toto statement in a DSSE envelope. Its subject is the run's attempts and its event log, by digest:

* attempts: SHA-256 over one canonical JSON line an attempt, in order of number, as under `attempts`;
* events: SHA-256 over one canonical JSON line an event, in order of seq, as the API gives them.

Above INLINE attempts the lines are left out and the digest stands for them: the API's attempts, the same fields,
hash to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from django.conf import settings
from django.db.models import Prefetch

from console.api.signing import canonical, sign
from console.api.views import dollars
from console.models import LedgerEntry
from desktops.models import Computer

from . import scoring
from .models import Attempt, AttemptTry, Event, Run, Step, Task

PREDICATE: Final = "https://deskyard.dev/provenance/run/v1"
INLINE: Final = 10_000
CHUNK: Final = 500


def manifest(run: Run) -> dict[str, Any]:
    """The signed envelope. For a run that has not ended it says so (`final: false`) and tells what is known now."""
    return sign(statement(run))


def statement(run: Run) -> dict[str, Any]:
    inline: list[dict[str, Any]] | None = [] if run.planned <= INLINE else None
    attempts_digest, events_digest = hashlib.sha256(), hashlib.sha256()
    for line in _attempts(run):
        attempts_digest.update(canonical(line) + b"\n")
        if inline is not None:
            inline.append(line)
    for event in Event.objects.filter(run=run, seq__lte=run.last_seq).order_by("seq").iterator(CHUNK):
        events_digest.update(canonical(event_line(event)) + b"\n")
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": f"runs/{run.pk}/attempts", "digest": {"sha256": attempts_digest.hexdigest()}},
            {"name": f"runs/{run.pk}/events", "digest": {"sha256": events_digest.hexdigest()}},
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "console": {"version": settings.VERSION, "url": settings.PUBLIC_URL},
            "run": _run(run),
            "resolved": _resolved(run),
            "counts": dict(scoring.counts(run)),
            "cost": {name: dollars(amount) for name, amount in scoring.cost(run).items()},  # type: ignore[arg-type]
            "desktops": _desktops(run) if inline is not None else None,
            "events": {"last_seq": run.last_seq},
            "attempts": inline,
        },
    }


def _at(moment: datetime | None) -> str | None:
    """As the API writes it."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def event_line(event: Event) -> dict[str, Any]:
    return {
        "seq": event.seq,
        "at": _at(event.at),
        "kind": event.kind,
        "version": event.version,
        "attempt": event.attempt_number,
        "data": event.data,
    }


def _run(run: Run) -> dict[str, Any]:
    return {
        "id": str(run.pk),
        "number": run.number,
        "workspace": run.workspace.slug,
        "kind": run.kind,
        "status": run.status,
        "final": run.is_terminal,
        "stop_reason": run.stop_reason or None,
        "request": run.spec,
        "created_via": run.created_via,
        "created_at": _at(run.created_at),
        "started_at": _at(run.started_at),
        "ended_at": _at(run.ended_at),
    }


def _resolved(run: Run) -> dict[str, Any]:
    """What the names in the request meant: digests of the set, its tasks and recipes, and the image."""
    tasks = {task.pk: task for task in Task.objects.filter(pk__in=run.task_ids).defer("document", "recipe")}
    return {
        "task_set": {
            "name": run.task_set.name,
            "version": run.task_set.version,
            "digest": run.task_set.digest,
        },
        "tasks": [
            {
                "id": tasks[pk].task_id,
                "digest": tasks[pk].digest,
                "recipe_digest": tasks[pk].recipe_digest or None,
            }
            for pk in run.task_ids
        ],
        "template": {"name": str(run.template_version), "digest": run.template_version.digest},
    }


def _attempts(run: Run) -> Iterator[dict[str, Any]]:
    steps = Step.objects.order_by("number").only("attempt_try_id", "number", "screenshot")
    tries = (
        AttemptTry.objects.order_by("number")
        .select_related("computer__worker")
        .prefetch_related(Prefetch("steps", steps))
    )
    rows = (
        Attempt.objects.filter(run=run)
        .order_by("number")
        .select_related("task")
        .defer("task__document", "task__recipe")
        .prefetch_related(Prefetch("try_rows", tries))
    )
    for attempt in rows.iterator(chunk_size=CHUNK):
        yield {
            "number": attempt.number,
            "id": str(attempt.pk),
            "task": attempt.task.task_id,
            "round": attempt.round,
            "copy": attempt.copy,
            "fork": attempt.fork,
            "fork_method": attempt.fork_method or None,
            "status": attempt.status,
            "verifier": attempt.verifier,
            "outcome": attempt.outcome,
            "reward": attempt.reward,
            "invalid_reasons": attempt.invalid_reasons,
            "checker_error": attempt.checker_error or None,
            "tries": [_try(row) for row in attempt.try_rows.all()],
        }


def _try(row: AttemptTry) -> dict[str, Any]:
    verdict = row.verdict or {}
    return {
        "number": row.number,
        "ok": row.ok,
        "reward": row.reward,
        "invalid_reasons": row.invalid_reasons,
        "worker": row.computer.worker.name if row.computer else None,
        "computer": row.computer.label if row.computer else None,
        "checker": verdict.get("checker"),
        "checker_digest": verdict.get("checker_digest"),
        "verdict_digest": hashlib.sha256(canonical(verdict)).hexdigest() if verdict else None,
        "artefacts": sorted(
            digest
            for evidence in verdict.get("evidence", [])
            for digest in (evidence.get("artefacts") or {}).values()
        ),
        "screenshots": [step.screenshot for step in row.steps.all()],
    }


def _desktops(run: Run) -> list[dict[str, Any]]:
    """Every desktop and what it cost: the sum is the run's spent."""
    entries = {entry.subject: entry for entry in LedgerEntry.objects.filter(budget=run.budget)}
    desktops = []
    for computer in Computer.objects.filter(group=run.pk).select_related("worker").order_by("number"):
        entry = entries.get(computer.pk)
        desktops.append(
            {
                "computer": computer.label,
                "worker": computer.worker.name,
                "worker_version": computer.worker.version,
                "engine": computer.engine,
                "started_at": _at(computer.started_at),
                "stopped_at": _at(computer.stopped_at),
                "rate_usd_per_hour": dollars(entry.rate_usd_per_hour) if entry else None,
                "seconds": str(entry.seconds) if entry and entry.seconds is not None else None,
                "cost_usd": dollars(entry.cost) if entry and entry.cost is not None else None,
            }
        )
    return desktops
