"""Task sets: the list, one set with its filters and refused files, one task made readable."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.db.models import Count, Q
from django.http import Http404, HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from console.models import Workspace
from console.pages.loaders import WorkspaceRequest, workspace_page
from desktops.worker.task import BadTask, parse
from runs.models import Task, TaskSet

from . import readable

PAGE = 50

# What keeps a file from running here, as a heading; the stored sentence of each file says it in full.
REFUSALS = {
    "bad_file": "Not a task that can be read",
    "google_drive": "Needs a Google account",
    "needs_web": "Needs files or pages of the web",
    "app_missing": "Needs an application that no template has",
    "setup_unsupported": "A setup step is not supported yet",
    "getter_unsupported": "Its checker reads something not supported yet",
    "metric_unsupported": "Its metric is not supported yet",
}


def task_set_or_404(workspace: Workspace, name: str) -> TaskSet:
    found: TaskSet | None = TaskSet.objects.for_workspace(workspace).current().filter(name=name).first()
    if found is None:
        raise Http404("No such task set.")
    return found


@workspace_page
@require_safe
def task_sets(request: WorkspaceRequest) -> HttpResponse:
    sets = (
        TaskSet.objects.for_workspace(request.workspace)
        .current()
        .annotate(n=Count("tasks"), with_recipe=Count("tasks", filter=Q(tasks__recipe__isnull=False)))
    )
    return render(request, "tasksets/list.html", {"sets": sets})


@workspace_page
@require_safe
def task_set(request: WorkspaceRequest, name: str) -> HttpResponse:
    """Tasks by keyset on their position; the refused files as a second tab."""
    shown = task_set_or_404(request.workspace, name)
    total, with_recipe = shown.tasks.count(), shown.tasks.exclude(recipe=None).count()
    context: dict[str, Any] = {
        "set": shown,
        "refused_tab": request.GET.get("tab") == "refused",
        "total": total,
        "with_recipe": with_recipe,
        "without": total - with_recipe,
        "reasons": [
            (code, REFUSALS.get(code, code.replace("_", " ").capitalize()), n)
            for code, n in Counter(file.get("code", "") for file in shown.refused).most_common()
        ],
        "versions": TaskSet.objects.for_workspace(request.workspace)
        .filter(name=shown.name)
        .annotate(n=Count("tasks"))[:10],
    }
    context |= _refused(shown, request.GET) if context["refused_tab"] else _tasks(shown, request.GET)
    return render(request, "tasksets/set.html", context)


def _tasks(shown: TaskSet, query: QueryDict) -> dict[str, Any]:
    q, app, recipe = query.get("q", "").strip()[:200], query.get("app", "")[:50], query.get("recipe") == "on"
    found = shown.tasks.defer("document", "recipe")
    for word in q.split()[:10]:
        found = found.filter(
            Q(task_id__icontains=word)
            | Q(title__icontains=word)
            | Q(instruction__icontains=word)
            | Q(related_apps__icontains=word)
        )
    if app:
        found = found.filter(related_apps__contains=[app])
    if recipe:
        found = found.filter(recipe__isnull=False)
    kept: dict[str, str | int] = {
        name: value for name, value in {"q": q, "app": app, "recipe": "on" * recipe}.items() if value
    }
    matching = found.count()
    rows, newer, older = _page(found, query)
    apps = Counter(one for apps in shown.tasks.values_list("related_apps", flat=True) for one in apps)
    return {
        "q": q,
        "app": app,
        "recipe": recipe,
        "kept": kept,
        "rows": rows,
        "solved": set(
            shown.tasks.exclude(recipe=None)
            .filter(pk__in=[row.pk for row in rows])
            .values_list("pk", flat=True)
        ),
        "matching": matching,
        "shown": f"{len(rows):,} of {matching:,} tasks",
        "newer": newer and f"?{urlencode({**kept, **newer})}",
        "older": older and f"?{urlencode({**kept, **older})}",
        "apps": [
            (one, n, urlencode({**{k: v for k, v in kept.items() if k != "app"}, "app": one}))
            for one, n in sorted(apps.items(), key=lambda item: (-item[1], item[0]))
        ],
        "all_apps": urlencode({k: v for k, v in kept.items() if k != "app"}),
    }


def _page(found: Any, query: QueryDict) -> tuple[list[Task], dict[str, int] | None, dict[str, int] | None]:
    """One page after or before a position, and the keys of the pages next to it."""
    before, after = _position(query.get("before")), _position(query.get("after"))
    if before is not None:
        rows = list(found.filter(position__lt=before).order_by("-position")[: PAGE + 1])
        more, rows = len(rows) > PAGE, rows[:PAGE][::-1]
        newer = {"before": rows[0].position} if rows and more else None
        older = {"after": rows[-1].position} if rows else None
        return rows, newer, older
    if after is not None:
        found = found.filter(position__gt=after)
    rows = list(found.order_by("position")[: PAGE + 1])
    more, rows = len(rows) > PAGE, rows[:PAGE]
    newer = {"before": rows[0].position} if rows and after is not None else None
    return rows, newer, {"after": rows[-1].position} if more else None


def _position(typed: str | None) -> int | None:
    return int(typed) if typed and typed.isascii() and typed.isdigit() and len(typed) <= 9 else None


def _refused(shown: TaskSet, query: QueryDict) -> dict[str, Any]:
    code = query.get("code", "")
    files = [
        {**file, "heading": REFUSALS.get(file.get("code", ""), file.get("code", ""))}
        for file in shown.refused
        if not code or file.get("code") == code
    ]
    return {"files": files, "code": code}


@workspace_page
@require_safe
def task(request: WorkspaceRequest, name: str, task_id: str) -> HttpResponse:
    shown = task_set_or_404(request.workspace, name)
    found = shown.tasks.filter(task_id=task_id).first()
    if found is None:
        raise Http404("No such task in this set.")
    near = shown.tasks.only("task_id", "title", "instruction", "position", "task_set")
    context: dict[str, Any] = {
        "set": shown,
        "task": found,
        "recipe": readable.actions(found.recipe),
        "earlier": near.filter(position__lt=found.position).order_by("-position").first(),
        "later": near.filter(position__gt=found.position).order_by("position").first(),
        "document": readable.as_json(found.document),
    }
    try:
        parsed = parse(found.document)
    except BadTask as bad:
        context["unreadable"] = str(bad)
    else:
        context |= {
            "setup": [readable.step(one) for one in parsed.setup],
            "after": [readable.step(one) for one in parsed.evaluator.postconfig],
            "checks": [readable.check(one) for one in parsed.evaluator.checks],
            "all_must_hold": parsed.evaluator.conj == "and",
            "infeasible": parsed.evaluator.infeasible,
        }
    return render(request, "tasksets/task.html", context)
