"""Events: the run's log by page, by kind, after a sequence number, and whole as JSON lines."""

from __future__ import annotations

from typing import Final

from django.db.models import Q, QuerySet
from django.http import HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.pages.loaders import WorkspaceRequest, workspace_page
from console.pages.paging import by_number, typed_number
from runs.exports import events_file
from runs.models import Event, Run
from runs.pages import sentences
from runs.pages.frame import never_stored, render_tab
from runs.pages.loaders import run_or_404

ROWS: Final = 100
GROUPS: Final = {
    "run": ("run_created", "run_status", "run_stopping", "round_created"),
    "attempts": (
        "attempt_offered",
        "setup_awaited",
        "setup_done",
        "attempt_verifying",
        "attempt_verdict",
        "attempt_ended",
        "try_failed",
    ),
    "prefixes": ("prefix_offered", "prefix_saved", "prefix_ended", "prefix_released", "forked"),
    "steps": ("step",),
    "computers": (
        "state_saved",
        "computer_started",
        "computer_ready",
        "desktop_taken_over",
        "computer_stopped",
    ),
    "problems": ("try_failed", "run_stopping"),
}


@require_safe
@never_stored
@workspace_page
def event_log(request: WorkspaceRequest, number: int) -> HttpResponse:
    run = run_or_404(request, number)
    asked = request.GET
    page = by_number(filtered(run, asked), asked, rows=ROWS, field="seq", ranges=ranges(asked))
    query = request.GET.copy()
    for paging in ("before", "after"):
        query.pop(paging, None)
    download = reverse("run-events-download", args=[request.workspace.slug, run.number])
    context = {
        "page": page,
        "told": [(event, sentences.describe(event)) for event in page.rows],
        "kinds": sentences.KINDS,
        "asked": request.GET,
        "groups": [(name, name.capitalize()) for name in GROUPS],
        "download": f"{download}?{query.urlencode()}" if query else download,
        "is_newest": not page.newer,
    }
    return render_tab(request, run, "run-events", "runs/events.html", context)


def ranges(asked: QueryDict) -> list[Q]:
    """A range a kind; of one attempt there are never many events, and they have an index of their own."""
    kind = asked.get("kind", "")
    if kind not in GROUPS or asked.get("attempt"):
        return []
    return [Q(kind=one) for one in GROUPS[kind]]


def filtered(run: Run, asked: QueryDict) -> QuerySet[Event]:
    events = run.events.all()
    kind = asked.get("kind", "")
    if kind in GROUPS:
        events = events.filter(kind__in=GROUPS[kind])
    elif kind in sentences.KINDS:
        events = events.filter(kind=kind)
    attempt = asked.get("attempt", "")
    if attempt.isdecimal() and len(attempt) < 9:
        events = events.filter(attempt_number=int(attempt))
    return events


@require_safe
@workspace_page
def download(request: WorkspaceRequest, number: int) -> HttpResponseBase:
    """One JSON object a line, in order; `after` resumes. Streamed, so its size costs no memory."""
    run = run_or_404(request, number)
    events = filtered(run, request.GET)
    after = typed_number(request.GET.get("after", ""))
    if after is not None:
        events = events.filter(seq__gt=after)
    return events_file(run, events)
