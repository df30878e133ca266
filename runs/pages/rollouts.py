"""Rollouts: every attempt of a run, filtered on all three columns, in keyset pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.db.models import Q, QuerySet
from django.http import HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe

from console.pages.loaders import WorkspaceRequest, workspace_page
from console.pages.paging import Page, by_number
from desktops.models import Worker
from runs.exports import WORDS, Format, attempts_file
from runs.models import Attempt, Run
from runs.pages import sentences
from runs.pages.frame import never_stored, render_tab
from runs.pages.loaders import run_or_404
from runs.pages.waffle import tasks_of

ROWS: Final = 50


@dataclass(frozen=True)
class Choice:
    href: str
    word: str
    count: int | None
    current: bool


@require_safe
@never_stored
@workspace_page
def rollouts(request: WorkspaceRequest, number: int) -> HttpResponse:
    run = run_or_404(request, number)
    asked = request.GET
    attempts = filtered(run, asked).select_related("task", "worker", "computer")
    page: Page[Attempt] = by_number(attempts, asked, rows=ROWS, field="number")
    workers = Worker.objects.for_workspace(request.workspace).values_list("name", flat=True)
    context = {
        "page": page,
        "axes": axes(run, asked),
        "axis_names": ("status", "verifier", "outcome"),
        "tasks": list(tasks_of(run).values()),
        "workers": list(workers),
        "asked": asked,
        "filtered": any(asked.get(name) for name in FILTERS),
        "reason_words": sentences.INVALID_REASONS,
        "unstored": run.rounds_created < run.spec["rounds"],
        "downloads": downloads(run, asked),
    }
    return render_tab(request, run, "run-rollouts", "runs/rollouts.html", context)


@require_safe
@workspace_page
def download(request: WorkspaceRequest, number: int, form: Format) -> HttpResponseBase:
    """The attempts that the page lists under the same filters, all of them."""
    run = run_or_404(request, number)
    return attempts_file(run, filtered(run, request.GET), form)


def downloads(run: Run, asked: QueryDict) -> list[tuple[str, str]]:
    """Word and address of each format."""
    query = asked.copy()
    for paging in ("before", "after"):
        query.pop(paging, None)
    tail = f"?{query.urlencode()}" if query else ""
    address = [run.workspace.slug, run.number]
    return [
        (word, reverse("run-attempts-file", args=[*address, form]) + tail) for form, word in WORDS.items()
    ]


FILTERS: Final = ("status", "verifier", "outcome", "q", "task", "worker", "tries", "reason")


def filtered(run: Run, asked: QueryDict) -> QuerySet[Attempt]:
    """What has begun, unless a status is asked for: the newest of these is what people look for in a run that plays.
    Values outside the vocabulary filter nothing, so an old address still shows a page."""
    attempts = run.attempts.all()
    status = asked.get("status")
    if not status:
        attempts = attempts.exclude(status=Attempt.Status.QUEUED)
    elif status == "playing":
        attempts = attempts.filter(status__in=Attempt.LIVE)
    elif status in Attempt.Status.values:
        attempts = attempts.filter(status=status)
    if asked.get("verifier") in Attempt.Verifier.values:
        attempts = attempts.filter(verifier=asked["verifier"])
    if asked.get("outcome") in Attempt.Outcome.values:
        attempts = attempts.filter(outcome=asked["outcome"])
    elif asked.get("outcome") == "none":
        attempts = attempts.filter(outcome=None)
    if asked.get("reason") in sentences.INVALID_REASONS:
        attempts = attempts.filter(invalid_reasons__contains=[asked["reason"]])
    if asked.get("tries") == "more":
        attempts = attempts.filter(tries__gt=1)
    if asked.get("worker"):
        attempts = attempts.filter(worker__name=asked["worker"])
    if asked.get("task"):
        attempts = attempts.filter(task__task_id=asked["task"])
    words = asked.get("q", "").strip()
    if words.isdecimal() and len(words) < 9:
        attempts = attempts.filter(number=int(words))
    elif words.removeprefix("c-").isdecimal() and words.startswith("c-"):
        attempts = attempts.filter(computer__number=int(words[2:11]))
    elif words:
        attempts = attempts.filter(Q(task__title__icontains=words) | Q(task__task_id__icontains=words))
    return attempts


def axes(run: Run, asked: QueryDict) -> list[tuple[str, str, list[Choice]]]:
    """The three columns, each with its values and the run's count of them."""
    playing = run.running + run.verifying
    columns: list[tuple[str, str, list[tuple[str, str, int]]]] = [
        (
            "status",
            "Status",
            [
                ("all", "All", run.planned),
                ("done", "Done", run.done),
                ("error", "Error", run.error),
                ("playing", "Running", playing),
                ("queued", "Queued", run.queued),
                ("cancelled", "Cancelled", run.cancelled),
            ],
        ),
        (
            "verifier",
            "Verifier",
            [
                ("valid", "Valid", run.valid),
                ("invalid", "Invalid", run.invalid),
                ("not_checked", "Not checked", run.not_checked),
            ],
        ),
        (
            "outcome",
            "Outcome",
            [
                ("success", "Success", run.success),
                ("fail", "Fail", run.fail),
                ("none", "—", run.planned - run.valid),
            ],
        ),
    ]
    return [
        (
            name,
            word,
            [
                _choice(asked, name, "", "Begun" if name == "status" else "Any", None),
                *(_choice(asked, name, *value) for value in values),
            ],
        )
        for name, word, values in columns
    ]


def _choice(asked: QueryDict, name: str, value: str, word: str, count: int | None) -> Choice:
    query: Any = asked.copy()
    for gone in (name, "before", "after"):
        query.pop(gone, None)
    if value:
        query[name] = value
    encoded = query.urlencode()
    return Choice(f"?{encoded}" if encoded else "?", word, count, asked.get(name, "") == value)
