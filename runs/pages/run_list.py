"""Runs: filterable, sortable, in keyset pages. Scripted tests wear their frame and never a rate."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from django.db.models import F, Q, QuerySet
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.models import Workspace
from console.pages.loaders import WorkspaceRequest, workspace_page
from console.pages.paging import query_with
from console.spending import SoFar, so_far
from runs import scoring
from runs.models import Run
from runs.pages import sentences
from runs.pages.frame import never_stored, optional_address
from runs.pages.loaders import base_template
from runs.pages.start import readiness

ROWS: Final = 25
SORTS: Final = {"started": "number", "name": "name", "cost": "budget__spent", "attempts": "planned"}


class Line(NamedTuple):
    """A row of the list. `rate` is None for a scripted test, always. `used`: what it has cost by now."""

    run: Run
    used: SoFar
    rate: scoring.Rate | None
    recipes: str
    aim: str


@dataclass(frozen=True)
class View:
    href: str
    word: str
    count: int | None
    current: bool


class Column(NamedTuple):
    href: str
    direction: str


@require_safe
@never_stored
@workspace_page
def run_list(request: WorkspaceRequest) -> HttpResponse:
    asked = request.GET
    everything = Run.objects.for_workspace(request.workspace)
    sort, descending = _sort(asked)
    found, newer, older = _page(filtered(everything, asked, request), asked, sort, descending)
    active = everything.active().count()
    context: dict[str, Any] = {
        "base_template": base_template(request),
        "slug": request.workspace.slug,
        "lines": lines(request.workspace, found),
        "newer": newer,
        "older": older,
        "views": views(request, active),
        "columns": {
            name: Column(
                query_with(asked, sort=name if sort == name and descending else f"-{name}"),
                ("descending" if descending else "ascending") if sort == name else "",
            )
            for name in SORTS
        },
        "asked": asked,
        "filtered": any(asked.get(name) for name in ("q", "kind", "status", "stop", "task_set", "who")),
        "statuses": Run.Status.choices,
        "stops": Run.StopReason.choices,
        "task_sets": list(
            request.workspace.task_sets.order_by("name").values_list("name", flat=True).distinct()
        ),
        "new_run_url": optional_address("run-new", request.workspace.slug),
        "is_live": bool(active),
        "total": request.workspace.last_run_number,
    }
    if not request.workspace.last_run_number:
        context |= readiness(request)
    reply = render(request, "runs/list.html", context)
    reply["Vary"] = "HX-Request, Cookie"
    return reply


def filtered(runs: QuerySet[Run], asked: QueryDict, request: WorkspaceRequest) -> QuerySet[Run]:
    status = asked.get("status", "")
    if status == "active":
        runs = runs.filter(status__in=Run.ACTIVE)
    elif status in Run.Status.values:
        runs = runs.filter(status=status)
    if asked.get("kind") in Run.Kind.values:
        runs = runs.filter(kind=asked["kind"])
    if asked.get("stop") in Run.StopReason.values:
        runs = runs.filter(stop_reason=asked["stop"])
    if asked.get("who") == "me":
        runs = runs.filter(creator=request.user)
    if asked.get("task_set"):
        runs = runs.filter(task_set__name=asked["task_set"])
    words = asked.get("q", "").strip()
    number = words.removeprefix("#")
    if number.isdecimal() and len(number) < 9:
        runs = runs.filter(Q(number=int(number)) | Q(name__icontains=words))
    elif words:
        runs = runs.filter(name__icontains=words)
    return runs.select_related("budget", "creator", "task_set")


def _sort(asked: QueryDict) -> tuple[str, bool]:
    wanted = asked.get("sort", "-started")
    name = wanted.removeprefix("-")
    return (name, wanted.startswith("-")) if name in SORTS else ("started", True)


def _page(runs: QuerySet[Run], asked: QueryDict, sort: str, descending: bool) -> tuple[list[Run], str, str]:
    """A page by keyset: the row named by `before` or `after` is `value~number` of the sorted column."""
    field = SORTS[sort]
    back = bool(asked.get("after"))
    mark = _mark(asked.get("after") or asked.get("before", ""), sort)
    down = descending != back
    if mark is not None:
        value, number = mark
        beyond = "lt" if down else "gt"
        runs = runs.filter(
            Q(**{f"{field}__{beyond}": value}) | Q(**{field: value, f"number__{beyond}": number})
        )
    order = [F(field).desc() if down else F(field).asc(), "-number" if down else "number"]
    taken = list(runs.order_by(*order)[: ROWS + 1])
    more, shown = len(taken) > ROWS, taken[:ROWS]
    if back:
        shown.reverse()
    if not shown:
        return [], "", ""
    newer = query_with(asked, after=_cursor(shown[0], sort)) if (more if back else mark is not None) else ""
    older = query_with(asked, before=_cursor(shown[-1], sort)) if (True if back else more) else ""
    return shown, newer, older


def _cursor(run: Run, sort: str) -> str:
    value = {"started": run.number, "name": run.name, "cost": run.budget.spent, "attempts": run.planned}[sort]
    return f"{value}~{run.number}"


def _mark(text: str, sort: str) -> tuple[Any, int] | None:
    value, tilde, number = text.rpartition("~")
    if not tilde or not number.isdecimal() or len(number) > 9:
        return None
    if sort == "name":
        return value, int(number)
    try:
        amount = Decimal(value)
    except InvalidOperation:
        return None
    return (amount if sort == "cost" else int(amount)), int(number)


def lines(workspace: Workspace, runs: list[Run]) -> list[Line]:
    """One query for the rates of all evaluations on the page, and one for what runs have cost by now."""
    used = so_far(workspace, [run.budget for run in runs], timezone.now())
    evaluations = [run for run in runs if not run.is_scripted]
    totals = scoring.task_totals(evaluations) if evaluations else {}
    return [
        Line(
            run,
            used[run.budget_id],
            None if run.is_scripted else scoring.rate(totals.get(run.pk, {})),
            sentences.recipes(run) if run.is_scripted else "",
            sentences.aim(run),
        )
        for run in runs
    ]


def views(request: WorkspaceRequest, active: int) -> list[View]:
    """The lists people come for, as tabs. A tab is current when the address asks for exactly it."""
    here = reverse("run-list", args=[request.workspace.slug])
    asked = {
        key: value for key, value in request.GET.items() if value and key not in ("before", "after", "sort")
    }
    known: list[tuple[str, dict[str, str], int | None]] = [
        ("All", {}, request.workspace.last_run_number),
        ("In progress", {"status": "active"}, active),
        ("Mine", {"who": "me"}, None),
        ("Scripted tests", {"kind": "scripted_test"}, None),
        ("Failed", {"status": "failed"}, None),
    ]
    return [
        View(
            here + ("?" + "&".join(f"{key}={value}" for key, value in query.items()) if query else ""),
            word,
            count,
            asked == query,
        )
        for word, query, count in known
    ]
