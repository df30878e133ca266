"""Rollouts: every attempt of a run, filtered on all three columns, in keyset pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, Final

from django.db.models import Q, QuerySet
from django.http import HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe
from django.views.decorators.http import require_safe

from console.pages.loaders import WorkspaceRequest, workspace_page
from console.pages.paging import Page, by_number
from console.templatetags.deskyard import task_name
from desktops.models import Computer, Worker
from runs.columns import ranges
from runs.exports import WORDS, Format, attempts_file
from runs.models import Attempt, NoVerdict, Run, Task
from runs.pages import sentences
from runs.pages.frame import never_stored, render_tab
from runs.pages.loaders import run_or_404
from runs.pages.waffle import tasks_of

ROWS: Final = 50
# So few tasks are read task by task: the largest run has 3,200 attempts of each.
FEW_TASKS: Final = 3


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
    page = attempts_page(run, asked)
    workers = Worker.objects.for_workspace(request.workspace).values_list("name", flat=True)
    context = {
        "page": page,
        "axes": axes(run, asked),
        "axis_names": COLUMNS,
        "task_options": task_options(run, asked.get("task", "")),
        "workers": list(workers),
        "asked": asked,
        "filtered": any(asked.get(name) for name in FILTERS),
        "reason_words": sentences.INVALID_REASONS,
        "unstored": run.rounds_created < run.spec["rounds"],
        "downloads": downloads(run, asked),
    }
    return render_tab(request, run, "run-rollouts", "runs/rollouts.html", context)


def task_options(run: Run, chosen: str) -> str:
    """An option a task. Put together here: of the largest run's 366, a template makes a third of the page's work."""
    selected = mark_safe(" selected")
    return format_html_join(
        "",
        '<option value="{}"{}>{}</option>',
        (
            (task.task_id, selected if task.task_id == chosen else "", task_name(task))
            for task in tasks_of(run).values()
        ),
    )


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


# Cancelled with the run before a desktop was asked for is not begun either.
BEGUN: Final = ~Q(status=Attempt.Status.QUEUED) & ~Q(status=Attempt.Status.CANCELLED, started_at=None)
COLUMNS: Final = ("status", "verifier", "outcome")
FILTERS: Final = (*COLUMNS, "q", "task", "worker", "tries", "reason")


def attempts_page(run: Run, asked: QueryDict) -> Page[Attempt]:
    """A task, a number and a computer have few attempts, a reason has an index of its own; else the three columns are
    the ranges to read: see console.keyset."""
    attempts, narrow = narrowed(run, asked)
    shown = attempts.select_related("task", "worker", "computer").defer("task__document", "task__recipe")
    columns = _columns(asked)
    reason = asked.get("reason")
    if reason in sentences.INVALID_REASONS:
        rows = NoVerdict.objects.filter(run=run, reason=reason)
        if any(asked.get(name) for name in FILTERS if name != "reason"):
            rows = rows.filter(attempt__in=_either(attempts, columns).values("pk"))
        named = by_number(rows, asked, rows=ROWS, field="number")
        found = shown.in_bulk([row.attempt_id for row in named.rows])
        return Page([found[row.attempt_id] for row in named.rows], named.newer, named.older)
    if narrow or not any(asked.get(name) for name in COLUMNS):
        return by_number(_either(shown, columns), asked, rows=ROWS, field="number")
    return by_number(shown, asked, rows=ROWS, field="number", ranges=columns)


def filtered(run: Run, asked: QueryDict) -> QuerySet[Attempt]:
    """What has begun, unless a status is asked for: the newest of these is what people look for in a run that plays.
    Values outside the vocabulary filter nothing, so an old address still shows a page."""
    attempts = _either(narrowed(run, asked)[0], _columns(asked))
    if asked.get("reason") in sentences.INVALID_REASONS:
        return attempts.filter(invalid_reasons__contains=[asked["reason"]])
    return attempts


def narrowed(run: Run, asked: QueryDict) -> tuple[QuerySet[Attempt], bool]:
    """By everything but columns and reason, and whether few attempts are left."""
    attempts, narrow = run.attempts.all(), False
    if asked.get("tries") == "more":
        attempts = attempts.filter(tries__gt=1)
    if asked.get("worker"):
        named = Worker.objects.filter(workspace=run.workspace_id, name=asked["worker"])
        attempts = attempts.filter(worker__in=list(named.values_list("pk", flat=True)))
    words = asked.get("q", "").strip()
    if words.isdecimal() and len(words) < 9:
        attempts, narrow, words = attempts.filter(number=int(words)), True, ""
    elif words.removeprefix("c-").isdecimal() and words.startswith("c-"):
        on = Computer.objects.filter(workspace=run.workspace_id, number=int(words[2:11]))
        attempts, narrow, words = (
            attempts.filter(computer__in=list(on.values_list("pk", flat=True))),
            True,
            "",
        )
    tasks = _tasks(run, asked.get("task", ""), words)
    if tasks is not None:
        attempts = attempts.filter(task__in=tasks)
        narrow = narrow or len(tasks) <= FEW_TASKS
    return attempts, narrow


def _either(attempts: QuerySet[Attempt], columns: Sequence[Q]) -> QuerySet[Attempt]:
    return attempts.filter(reduce(or_, columns))


def _columns(asked: QueryDict) -> list[Q]:
    status, verifier, outcome = (asked.get(name, "") for name in ("status", "verifier", "outcome"))
    if status == "all":
        statuses: Sequence[str] = Attempt.Status.values
    elif status == "playing":
        statuses = Attempt.LIVE
    elif status in Attempt.Status.values:
        statuses = [status]
    elif not any(asked.get(name) for name in COLUMNS):
        return [BEGUN]
    else:
        statuses = [one for one in Attempt.Status.values if status or one != Attempt.Status.QUEUED]
    return ranges(statuses, [verifier] if verifier in Attempt.Verifier.values else [], outcome)


def _tasks(run: Run, named: str, words: str) -> list[int] | None:
    """Primary keys of the run's tasks that are asked for; None: all."""
    if not named and not words:
        return None
    tasks = Task.objects.filter(pk__in=run.task_ids)
    if named:
        tasks = tasks.filter(task_id=named)
    if words:
        tasks = tasks.filter(Q(title__icontains=words) | Q(task_id__icontains=words))
    return list(tasks.values_list("pk", flat=True))


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
                ("none", "No outcome", run.planned - run.valid),
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
