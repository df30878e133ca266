"""Overview: what came of the run so far, when or why it stops, what it costs, what it holds."""

from __future__ import annotations

import math
from typing import Any

from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.pages.loaders import WorkspaceRequest, workspace_page
from console.pages.paging import typed_number
from console.spending import so_far
from desktops.models import Computer
from runs import scoring
from runs.actions.offers import able_workers
from runs.models import Attempt, Prefix, Run
from runs.pages import sentences, states, waffle
from runs.pages.forecast import forecast
from runs.pages.frame import never_stored, render_tab
from runs.pages.gauges import gauges, key
from runs.pages.loaders import run_or_404
from runs.receipt import receipt

EVENTS_SHOWN = 6
HELD_SHOWN = 4
SEEN_SHOWN = 6
UNSHOWN = ("task__document", "task__recipe")


@require_safe
@never_stored
@workspace_page
def overview(request: WorkspaceRequest, number: int) -> HttpResponse:
    run = run_or_404(request, number)
    now = timezone.now()
    used = so_far(request.workspace, [run.budget], now)[run.budget_id]
    coming = forecast(run, now, used)
    context: dict[str, Any] = {
        "counts": scoring.counts(run),
        "pending": run.queued + run.running + run.verifying,
        "playing": run.running + run.verifying,
        "no_verdict_count": scoring.unjudged(run),
        "finished_label": f"{run.finished:,} of {run.planned:,} finished",
        "passed_of": sentences.passed_of(run),
        "key": key(run),
        "attempts_url": reverse("run", args=[request.workspace.slug, run.number]) + "attempts/",
        "gauges": gauges(run, coming, used, now),
        "recipes": sentences.recipes(run),
        "stopped": sentences.why_stopped(run, cancelled_by(run)),
        "failed_url": failed_url(run, request.workspace.slug) if run.fail else "",
        "next": sentences.what_next(run, manages=request.membership.manages),
        "forecast": coming,
        "no_verdict": scoring.no_verdict(run),
        "reason_words": sentences.INVALID_REASONS,
        "held_now": held_now(run),
        "seen": seen(run),
        "receipt": receipt(run) if run.is_terminal else None,
        "ending": states.ending(run),
        "recovery": states.recovery(run),
        "feed": feed(run),
        "able": run.status == Run.Status.QUEUED and bool(able_workers(run)),
        **progress(run, request.GET.get("tasks", "")),
    }
    return render_tab(request, run, "run", "runs/overview.html", context)


def failed_url(run: Run, slug: str) -> str:
    return f"{reverse('run-rollouts', args=[slug, run.number])}?outcome=fail"


def cancelled_by(run: Run) -> str:
    if run.stop_reason != Run.StopReason.CANCELLED_BY_USER:
        return ""
    told = run.events.filter(kind="run_stopping").order_by("-seq").first()
    return told.data["actor"] if told else ""


def progress(run: Run, page: str) -> dict[str, Any]:
    """The grid and, for an evaluation, the rate. The same number of queries at every size."""
    if run.planned <= waffle.CELLS:
        grid = waffle.rows(run, waffle.tasks_of(run))
        rate = None if run.is_scripted else scoring.rate({row.task.pk: row.total for row in grid})
        wide = any(len(row.cells) > waffle.CELLS_IN_HALF_A_ROW for row in grid) or len(grid) < 4
        roomy = all(len(row.cells) <= waffle.ROOMY_CELLS for row in grid)
        return {"rate": rate, "rows": grid, "wide": wide, "roomy": roomy, "halves": _halves(grid, wide)}
    totals = scoring.run_totals(run)
    rate = None if run.is_scripted else scoring.rate(totals)
    pages = max(1, math.ceil(len(run.task_ids) / waffle.TASKS_A_PAGE))
    at = min(max(typed_number(page) or 1, 1), pages)
    drawn = waffle.bars(run, waffle.tasks_of(run, at), totals)
    # A reopened run has no rounds to come: what was not stored counts as cancelled.
    stored = run.planned if run.reopened else run.rounds_created * (run.planned // run.spec["rounds"])
    return {
        "rate": rate,
        "bars": drawn,
        "wide": len(drawn) < 4,
        "halves": _halves(drawn, len(drawn) < 4),
        "page": at,
        "pages": pages,
        "first_task": (at - 1) * waffle.TASKS_A_PAGE + 1,
        "last_task": (at - 1) * waffle.TASKS_A_PAGE + len(drawn),
        "unstored": run.planned - stored,
        "queued_stored": run.queued - (run.planned - stored),
    }


def _halves(rows: list[Any], wide: bool) -> list[list[Any]]:
    if wide:
        return [rows]
    middle = math.ceil(len(rows) / 2)
    return [rows[:middle], rows[middle:]]


def held_now(run: Run) -> list[Attempt | Prefix]:
    """Attempts whose desktop is held, with it, newest first; before them the prefixes that are played."""
    held = Computer.objects.filter(group=run.pk).held().values("pk")
    found: list[Attempt | Prefix] = []
    for rows in (run.prefixes, run.attempts):
        shown = rows.filter(computer__in=held).select_related("computer__worker", "task").defer(*UNSHOWN)
        found += shown.order_by("-number")[:HELD_SHOWN]
    return found[:HELD_SHOWN]


def seen(run: Run) -> list[Attempt]:
    """The attempts with a picture that ended last, newest first."""
    ended = run.attempts.filter(status__in=("done", "error")).select_related("computer", "task")
    latest = ended.defer(*UNSHOWN).order_by("-number")[: 4 * SEEN_SHOWN]
    return [one for one in latest if one.computer and one.computer.last_screenshot][:SEEN_SHOWN]


def feed(run: Run) -> list[tuple[Any, sentences.Told]]:
    """The latest events but steps, in the order of their times: several workers' come in as each sends them."""
    latest = run.events.exclude(kind="step").order_by("-seq")[:EVENTS_SHOWN]
    in_order = sorted(latest, key=lambda event: (event.at, event.seq), reverse=True)
    return [(event, sentences.feed_sentence(event)) for event in in_order]
