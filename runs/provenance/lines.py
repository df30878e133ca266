"""The rows of a manifest: one JSON object an attempt, a desktop or an event, read a thousand at a time."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from django.contrib.postgres.aggregates import ArrayAgg

from console.api.signing import canonical
from console.api.views import dollars
from console.models import LedgerEntry
from desktops.models import Computer
from runs.models import Attempt, AttemptTry, Event, Run, Step

CHUNK: Final = 1_000

Line = dict[str, Any]


def at(moment: datetime | None) -> str | None:
    """As the API writes it."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def attempt_lines(run: Run) -> Iterator[Line]:
    """Every stored attempt, by number. Three queries a CHUNK, none that lasts: memory and locks stay flat."""
    rows = (
        Attempt.objects.filter(run=run)
        .order_by("number")
        .select_related("task", "computer", "worker")
        .defer("task__document", "task__recipe", "task__instruction", "worker__images")
    )
    last = 0
    while chunk := list(rows.filter(number__gt=last)[:CHUNK]):
        last = chunk[-1].number
        tries = _tries(chunk)
        for attempt in chunk:
            yield _attempt(attempt, tries.get(attempt.pk, []))


def _attempt(attempt: Attempt, tries: list[Line]) -> Line:
    return {
        "kind": "attempt",
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
        "steps": attempt.steps,
        "computer": attempt.computer.label if attempt.computer else None,
        "worker": attempt.worker.name if attempt.worker else None,
        "started_at": at(attempt.started_at),
        "ended_at": at(attempt.ended_at),
        "tries": tries,
    }


def _tries(attempts: list[Attempt]) -> dict[Any, list[Line]]:
    """By attempt, in order, each with the digests of its evidence."""
    rows = list(
        AttemptTry.objects.filter(attempt__in=[attempt.pk for attempt in attempts])
        .order_by("attempt_id", "number")
        .select_related("computer__worker")
        .defer("computer__worker__images")
    )
    screenshots = dict(
        Step.objects.filter(attempt_try__in=[row.pk for row in rows])
        .order_by()
        .values_list("attempt_try_id")
        .annotate(seen=ArrayAgg("screenshot", order_by="number"))
    )
    found: dict[Any, list[Line]] = defaultdict(list)
    for row in rows:
        found[row.attempt_id].append(_try(row, screenshots.get(row.pk, [])))
    return found


def _try(row: AttemptTry, screenshots: list[str]) -> Line:
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
        "setup_screenshot": row.setup_screenshot or None,
        "screenshots": screenshots,
    }


def desktop_lines(run: Run) -> Iterator[Line]:
    """Every desktop, by number, with its row of the ledger: the sum of their costs is what the run spent."""
    rows = Computer.objects.filter(group=run.pk).select_related("worker").defer("worker__images")
    last = 0
    while chunk := list(rows.filter(number__gt=last).order_by("number")[:CHUNK]):
        last = chunk[-1].number
        found = LedgerEntry.objects.filter(subject__in=[computer.pk for computer in chunk])
        entries = {entry.subject: entry for entry in found}
        for computer in chunk:
            yield _desktop(computer, entries.get(computer.pk))


def _desktop(computer: Computer, entry: LedgerEntry | None) -> Line:
    return {
        "kind": "desktop",
        "computer": computer.label,
        "id": str(computer.pk),
        "worker": computer.worker.name,
        "worker_version": computer.worker_version or computer.worker.version,
        "engine": computer.engine,
        "image_id": computer.image_id or None,
        "started_at": at(computer.started_at),
        "stopped_at": at(computer.stopped_at),
        "ledger": entry
        and {
            "rate_usd_per_hour": dollars(entry.rate_usd_per_hour),
            "opened_at": at(entry.opened_at),
            "settled_at": at(entry.settled_at),
            "seconds": None if entry.seconds is None else str(entry.seconds),
            "cost_usd": None if entry.cost is None else dollars(entry.cost),
        },
    }


def event_lines(run: Run, last: int) -> Iterator[Line]:
    """The log up to event `last`, in order. As lines of canonical JSON they hash to the manifest's digest."""
    rows = Event.objects.filter(run=run, seq__lte=last).order_by("seq")
    fields = ("seq", "at", "kind", "version", "attempt_number", "data")
    seen = 0
    while chunk := list(rows.filter(seq__gt=seen).values_list(*fields)[:CHUNK]):
        seen = chunk[-1][0]
        for row in chunk:
            yield event_line(*row)


def event_line(
    seq: int, moment: datetime, kind: str, version: int, attempt: int | None, data: dict[str, Any]
) -> Line:
    """As the API gives it."""
    return {"seq": seq, "at": at(moment), "kind": kind, "version": version, "attempt": attempt, "data": data}
