"""The rows of a manifest: one JSON object an attempt, a desktop or an event, read a thousand at a time."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from console.api.signing import canonical
from console.api.views import dollars
from console.models import LedgerEntry
from desktops.models import Computer
from runs.models import Attempt, AttemptTry, Event, Prefix, PrefixTry, Run, Step
from runs.timing import STEP_PARTS

CHUNK: Final = 1_000

Line = dict[str, Any]


def at(moment: datetime | None) -> str | None:
    """As the API writes it."""
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


def attempt_lines(run: Run) -> Iterator[Line]:
    """Every stored attempt, by number. Three queries a CHUNK, none that lasts: memory and locks stay flat."""
    rows = Attempt.objects.filter(run=run).order_by("number").values_list(*ATTEMPT, named=True)
    last = 0
    while chunk := list(rows.filter(number__gt=last)[:CHUNK]):
        last = chunk[-1].number
        tries = _tries([row.pk for row in chunk])
        for row in chunk:
            yield _attempt(row, tries.get(row.pk, []))


ATTEMPT: Final = (
    "pk",
    "number",
    "task__task_id",
    "round",
    "copy",
    "fork",
    "fork_method",
    "prefix__number",
    "prefix__state_digest",
    "status",
    "verifier",
    "outcome",
    "reward",
    "invalid_reasons",
    "checker_error",
    "steps",
    "computer__number",
    "worker__name",
    "started_at",
    "ended_at",
)


def _attempt(row: Any, tries: list[Line]) -> Line:
    return {
        "kind": "attempt",
        "number": row.number,
        "id": str(row.pk),
        "task": row.task__task_id,
        "round": row.round,
        "copy": row.copy,
        "fork": row.fork,
        "fork_method": row.fork_method or None,
        "prefix": row.prefix__number
        and {
            "number": row.prefix__number,
            "state_digest": row.prefix__state_digest or None,
        },
        "status": row.status,
        "verifier": row.verifier,
        "outcome": row.outcome,
        "reward": row.reward,
        "invalid_reasons": row.invalid_reasons,
        "checker_error": row.checker_error or None,
        "steps": row.steps,
        "computer": label(row.computer__number),
        "worker": row.worker__name,
        "started_at": at(row.started_at),
        "ended_at": at(row.ended_at),
        "tries": tries,
    }


def label(computer: int | None) -> str | None:
    """As `Computer.label`, of its number alone."""
    return None if computer is None else f"c-{computer:04d}"


TRY: Final = (
    "pk",
    "attempt_id",
    "number",
    "ok",
    "reward",
    "invalid_reasons",
    "computer__worker__name",
    "computer__number",
    "verdict",
    "setup_screenshot",
    "setup_seconds",
    "from_state",
    "from_digest",
    "ended_at",
)


def _tries(attempts: list[Any]) -> dict[Any, list[Line]]:
    """By attempt, in order, each with the digests of its evidence."""
    rows = list(
        AttemptTry.objects.filter(attempt__in=attempts)
        .order_by("attempt_id", "number")
        .values_list(*TRY, named=True)
    )
    steps: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    of_tries = Step.objects.filter(attempt_try__in=[row.pk for row in rows]).order_by("attempt_try", "number")
    for one, *step in of_tries.values_list("attempt_try_id", "screenshot", *STEP_PARTS):
        steps[one].append(tuple(step))
    found: dict[Any, list[Line]] = defaultdict(list)
    for row in rows:
        found[row.attempt_id].append(_try(row, steps[row.pk]))
    return found


def _try(row: Any, steps: list[tuple[Any, ...]]) -> Line:
    verdict = row.verdict or {}
    return {
        "number": row.number,
        "ok": row.ok,
        "reward": row.reward,
        "invalid_reasons": row.invalid_reasons,
        "worker": row.computer__worker__name,
        "computer": label(row.computer__number),
        "checker": verdict.get("checker"),
        "checker_digest": verdict.get("checker_digest"),
        "verdict_digest": hashlib.sha256(canonical(verdict)).hexdigest() if verdict else None,
        "artefacts": sorted(
            digest
            for evidence in verdict.get("evidence", [])
            for digest in (evidence.get("artefacts") or {}).values()
        ),
        "setup_screenshot": row.setup_screenshot or None,
        "from_state": row.from_state or None,
        "from_digest": row.from_digest or None,
        "screenshots": [screenshot for screenshot, *_ in steps],
        # What the times on the Metrics tab are made of: policy, act, settle and grab of each step.
        "step_ms": [times for _, *times in steps],
        "setup_seconds": row.setup_seconds,
        "verify_seconds": verdict.get("seconds"),
        "ended_at": at(row.ended_at),
    }


PREFIX: Final = (
    "pk",
    "number",
    "task__task_id",
    "round",
    "copy",
    "status",
    "invalid_reasons",
    "steps",
    "state_digest",
    "screenshot",
    "computer__number",
    "worker__name",
    "started_at",
    "ended_at",
)
PREFIX_TRY: Final = (
    "pk",
    "prefix_id",
    "number",
    "ok",
    "invalid_reasons",
    "computer__worker__name",
    "computer__number",
    "setup_screenshot",
    "setup_seconds",
    "from_state",
    "from_digest",
    "ended_at",
)


def prefix_lines(run: Run) -> Iterator[Line]:
    """Every prefix, by number, with its tries and what their screens showed. Three queries a CHUNK."""
    rows = Prefix.objects.filter(run=run).order_by("number").values_list(*PREFIX, named=True)
    last = 0
    while chunk := list(rows.filter(number__gt=last)[:CHUNK]):
        last = chunk[-1].number
        tries = _prefix_tries([row.pk for row in chunk])
        for row in chunk:
            yield _prefix(row, tries.get(row.pk, []))


def _prefix(row: Any, tries: list[Line]) -> Line:
    return {
        "kind": "prefix",
        "number": row.number,
        "id": str(row.pk),
        "task": row.task__task_id,
        "round": row.round,
        "copy": row.copy,
        "status": row.status,
        "invalid_reasons": row.invalid_reasons,
        "steps": row.steps,
        "state_digest": row.state_digest or None,
        "screenshot": row.screenshot or None,
        "computer": label(row.computer__number),
        "worker": row.worker__name,
        "started_at": at(row.started_at),
        "ended_at": at(row.ended_at),
        "tries": tries,
    }


def _prefix_tries(prefixes: list[Any]) -> dict[Any, list[Line]]:
    rows = list(
        PrefixTry.objects.filter(prefix__in=prefixes)
        .order_by("prefix_id", "number")
        .values_list(*PREFIX_TRY, named=True)
    )
    steps: dict[int, list[str]] = defaultdict(list)
    of_tries = Step.objects.filter(prefix_try__in=[row.pk for row in rows]).order_by("prefix_try", "number")
    for one, screenshot in of_tries.values_list("prefix_try_id", "screenshot"):
        steps[one].append(screenshot)
    found: dict[Any, list[Line]] = defaultdict(list)
    for row in rows:
        found[row.prefix_id].append(
            {
                "number": row.number,
                "ok": row.ok,
                "invalid_reasons": row.invalid_reasons,
                "worker": row.computer__worker__name,
                "computer": label(row.computer__number),
                "setup_screenshot": row.setup_screenshot or None,
                "setup_seconds": row.setup_seconds,
                "from_state": row.from_state or None,
                "from_digest": row.from_digest or None,
                "screenshots": steps[row.pk],
                "ended_at": at(row.ended_at),
            }
        )
    return found


DESKTOP: Final = (
    "number",
    "pk",
    "purpose",
    "worker__name",
    "worker_version",
    "worker__version",
    "engine",
    "image_id",
    "ready_seconds",
    "started_at",
    "stopped_at",
)
ENTRY: Final = ("rate_usd_per_hour", "opened_at", "settled_at", "seconds", "cost")


def desktop_lines(run: Run) -> Iterator[Line]:
    """Every desktop, by number, with its row of the ledger: the sum of their costs is what the run spent."""
    rows = Computer.objects.filter(group=run.pk).order_by("number").values_list(*DESKTOP, named=True)
    last = 0
    while chunk := list(rows.filter(number__gt=last)[:CHUNK]):
        last = chunk[-1].number
        found = LedgerEntry.objects.filter(subject__in=[row.pk for row in chunk])
        entries = {subject: entry for subject, *entry in found.values_list("subject", *ENTRY)}
        for row in chunk:
            yield _desktop(row, entries.get(row.pk))


def _desktop(row: Any, entry: list[Any] | None) -> Line:
    return {
        "kind": "desktop",
        "computer": label(row.number),
        "id": str(row.pk),
        "purpose": row.purpose,
        "worker": row.worker__name,
        "worker_version": row.worker_version or row.worker__version,
        "engine": row.engine,
        "image_id": row.image_id or None,
        "ready_seconds": row.ready_seconds,
        "started_at": at(row.started_at),
        "stopped_at": at(row.stopped_at),
        "ledger": entry and _entry(*entry),
    }


def _entry(
    rate: Decimal,
    opened_at: datetime,
    settled_at: datetime | None,
    seconds: Decimal | None,
    cost: Decimal | None,
) -> Line:
    return {
        "rate_usd_per_hour": dollars(rate),
        "opened_at": at(opened_at),
        "settled_at": at(settled_at),
        "seconds": None if seconds is None else str(seconds),
        "cost_usd": None if cost is None else dollars(cost),
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
