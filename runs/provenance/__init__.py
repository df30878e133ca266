"""One signed manifest a run: what was asked, what it resolved to, every verdict with its evidence, what it cost.

An in-toto statement in a DSSE envelope. Its subjects are the run's attempts, the prefixes they share, its desktops and
its event log, each by the SHA-256 over one canonical JSON line a row, in order of number or seq:

* up to INLINE attempts the rows are in the statement, and the manifest is one JSON document, the envelope;
* above that the manifest is a file of lines: every attempt, prefix and desktop, and as its last line the envelope,
  whose digests cover the lines before it. It is written and can be verified line by line, whatever its length.

`verify.py` beside this verifies either and computes every figure again. It needs nothing of ours.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.http import HttpResponse
from django.http.response import HttpResponseBase

from console.api.signing import canonical, sign
from console.api.views import dollars
from console.streaming import Streamed
from runs import scoring, timing
from runs.models import Run, Task
from runs.receipt import receipt

from .lines import Line, at, attempt_lines, desktop_lines, event_lines, prefix_lines

PREDICATE: Final = "https://deskyard.dev/provenance/run/v1"
INLINE: Final = 10_000
# In the order in which they are written.
ROWS: Final[dict[str, Callable[[Run], Iterator[Line]]]] = {
    "attempts": attempt_lines,
    "prefixes": prefix_lines,
    "desktops": desktop_lines,
}


class NotEnded(Exception):
    """The manifest of a run of more than 10,000 attempts is made once the run has ended."""

    def __str__(self) -> str:
        return f"The manifest of a run of more than {INLINE:,} attempts is made once the run has ended."


def is_small(run: Run) -> bool:
    return run.planned <= INLINE


def manifest(run: Run) -> Iterator[bytes]:
    """The file, piece by piece. Raises NotEnded, at once, for a large run that goes on.

    A small run that has not ended says so (`final: false`) and tells what is known now: its row is locked meanwhile,
    so that rows and figures are of one moment.
    """
    if not is_small(run):
        if not run.is_terminal:
            raise NotEnded
        return _large(run)
    if run.is_terminal:
        return iter([canonical(sign(statement(run)))])
    with transaction.atomic():
        Run.objects.select_for_update(of=["self"], no_key=True).get(pk=run.pk)
        run.refresh_from_db()
        run.budget.refresh_from_db()
        return iter([canonical(sign(statement(run)))])


def statement(run: Run) -> dict[str, Any]:
    """With all its rows inside."""
    tally = _Tally()
    rows = {name: [line for line, _ in tally.watch(name, read(run))] for name, read in ROWS.items()}
    return _statement(run, tally, rows)


def _large(run: Run) -> Iterator[bytes]:
    tally = _Tally()
    for name, read in ROWS.items():
        piece: list[bytes] = []
        for _, written in tally.watch(name, read(run)):
            piece.append(written)
            if len(piece) == 200:
                yield b"".join(piece)
                piece.clear()
        yield b"".join(piece)
    yield canonical(sign(_statement(run, tally, dict.fromkeys(ROWS))))


def as_file(run: Run) -> HttpResponseBase:
    """The manifest as a download; one document, or lines, as its size has it. Raises NotEnded."""
    pieces = manifest(run)
    if not is_small(run):
        name = f"run-{run.number}-provenance.jsonl"
        return Streamed(pieces, content_type="application/x-ndjson", filename=name)
    name = f'attachment; filename="run-{run.number}-provenance.json"'
    return HttpResponse(
        b"".join(pieces), content_type="application/json", headers={"Content-Disposition": name}
    )


class _Tally:
    """What is known of rows that have passed by: their digests, and the few different things they name."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}
        self.images: Counter[str] = Counter()
        self.workers: set[tuple[str, str, str]] = set()
        self.checkers: Counter[tuple[str, str]] = Counter()
        self.prefix_cost = Decimal(0)

    def watch(self, name: str, lines: Iterable[Line]) -> Iterator[tuple[Line, bytes]]:
        digest = hashlib.sha256()
        for line in lines:
            written = canonical(line) + b"\n"
            digest.update(written)
            if line.get("kind") == "desktop":
                self.images[line["image_id"] or ""] += 1
                self.workers.add((line["worker"], line["worker_version"], line["engine"]))
                if line["purpose"] == "prefix" and line["ledger"]:
                    self.prefix_cost += Decimal(line["ledger"]["cost_usd"] or 0)
            for one in line["tries"] if line.get("kind") == "attempt" else ():
                if one["checker_digest"]:
                    self.checkers[one["checker"], one["checker_digest"]] += 1
            yield line, written
        self.digests[name] = digest.hexdigest()


def _statement(run: Run, tally: _Tally, rows: Mapping[str, list[Line] | None]) -> dict[str, Any]:
    for _ in tally.watch("events", event_lines(run, run.last_seq)):
        pass
    caps = scoring.caps(run)
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": f"runs/{run.pk}/{name}", "digest": {"sha256": digest}}
            for name, digest in tally.digests.items()
        ],
        "predicateType": PREDICATE,
        "predicate": {
            "console": {"version": settings.VERSION, "url": settings.PUBLIC_URL},
            "run": _run(run),
            "resolved": _resolved(run, tally),
            "counts": dict(scoring.counts(run)),
            "cost": {name: dollars(amount) for name, amount in scoring.cost(run).items()},  # type: ignore[arg-type]
            "figures": {**_figures(run), "prefix_cost_usd": dollars(tally.prefix_cost)},
            "caps": {**caps, "spend_cap_usd": dollars(caps["spend_cap_usd"])},
            "events": {"last_seq": run.last_seq},
            **rows,
        },
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
        "stop_detail": run.stop_detail or None,
        "request": run.spec,
        "rounds_created": run.rounds_created,
        "created_via": run.created_via,
        "created_at": at(run.created_at),
        "started_at": at(run.started_at),
        "ended_at": at(run.ended_at),
        "reopened": run.reopened,
        "resumed_at": at(run.resumed_at),
        "earlier_seconds": run.earlier_seconds,
    }


def _resolved(run: Run, tally: _Tally) -> dict[str, Any]:
    """What the names in the request meant, and what then played: images by id, workers and checkers by version."""
    tasks = {
        task.pk: task
        for task in Task.objects.filter(pk__in=run.task_ids).only("task_id", "digest", "recipe_digest")
    }
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
        "template": {
            "name": str(run.template_version),
            "recipe_digest": run.template_version.digest,
            "images": [
                {"image_id": image or None, "desktops": count}
                for image, count in sorted(tally.images.items())
            ],
        },
        "checkers": [
            {"checker": checker, "digest": digest, "verdicts": count}
            for (checker, digest), count in sorted(tally.checkers.items())
        ],
        "workers": [
            {"name": name, "version": version, "engine": engine}
            for name, version, engine in sorted(tally.workers)
        ],
    }


def _figures(run: Run) -> dict[str, Any]:
    """The figures of the run's page, as it shows them."""
    totals = scoring.run_totals(run)
    names = dict(Task.objects.filter(pk__in=run.task_ids).values_list("pk", "task_id"))
    took = run.time_used(run.ended_at) if run.ended_at and run.started_at else None
    return {
        "took_seconds": took,
        "rate": None if run.is_scripted else _rate(scoring.rate(totals)),
        "tasks": [
            {
                "task": names[pk],
                **totals[pk]._asdict(),
                "fail": totals[pk].fail,
                "no_verdict": totals[pk].no_verdict,
            }
            for pk in run.task_ids
            if pk in totals
        ],
        "no_verdict": [{"reason": row.reason, "count": row.count} for row in scoring.no_verdict(run)],
        "timing": _timing(run),
        "receipt": _receipt(run),
    }


def _rate(rate: scoring.Rate) -> dict[str, Any]:
    names = (
        "success",
        "valid",
        "fail",
        "finished",
        "no_verdict",
        "rate",
        "low",
        "high",
        "coverage",
        "worst",
        "best",
    )
    return {name: getattr(rate, name) for name in (*names, "tasks", "method")}


def _timing(run: Run) -> dict[str, Any]:
    """The times of the Metrics tab, of the finished attempts with the highest numbers."""
    whole = timing.spread(timing.durations(run))
    return {
        "of_last": timing.SAMPLE,
        "attempt_seconds": whole and asdict(whole),
        "step_ms": {name: asdict(part) for name, part in timing.step_parts(run).items()},
        "desktop_seconds": asdict(timing.desktop_time(run)),
    }


def _receipt(run: Run) -> dict[str, Any]:
    """As the run's page has it; `swept_at` is said by each worker that played the run, after its last desktop."""
    told = receipt(run)
    return {
        "started": told.started,
        "stopped": told.stopped,
        "left": told.left,
        "swept_at": at(told.swept_at),
        "ledger_rows": told.entries,
        "ledger_open": told.open,
        "seconds": str(told.seconds),
        "cost_usd": dollars(told.cost),
    }
