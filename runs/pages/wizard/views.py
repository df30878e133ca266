"""The wizard's pages. Each step is a GET that shows the draft and a POST that saves it and leads on.

A POST always answers with a redirect, so reload and back never send anything twice. What is wrong was saved
too and is shown by the page that the redirect leads to.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actor import Actor
from console.pages.loaders import WorkspaceRequest, workspace_page
from console.spending import so_far
from runs import limits, spec
from runs.actions.create import create_run
from runs.models import Run, RunDraft, TaskSet
from runs.pages.frame import render_tab
from runs.pages.loaders import run_or_404

from . import forecast, hosts, picker
from . import request as request_code
from .draft import Draft, read_step, start
from .sketch import sketch
from .steps import (
    BUDGET,
    BY_SLUG,
    ENVIRONMENT,
    EXECUTION,
    LABELS,
    REVIEW,
    STEPS,
    WORKLOAD,
    Step,
    after,
    before,
    step_of,
)

HELP = {
    "parallel_copies": "Each starts on its own fresh desktop. At most {parallelism} here, this workspace’s "
    "run parallelism.",
    "rounds": "The whole plan again: what varies from one time to the next. One may begin before the last has ended.",
    "prefix_steps": "First actions of the task that all fork copies share. Played once, where the worker can save a "
    "running desktop.",
    "fork_copies": "Copies that go on from the desktop after the prefix: from the saved desktop itself, with its "
    "open programs and unsaved work, where the worker can save one; else each plays the prefix again.",
    "max_steps": "Actions an attempt may take, those of the prefix included. Reaching it ends the attempt; "
    "the checker still decides.",
}


@workspace_page
@require_http_methods(["GET", "HEAD", "POST"])
def new_run(request: WorkspaceRequest) -> HttpResponse:
    """GET goes on with the draft, `?task=` proposes tasks for it. POST puts a task set and maybe tasks into it."""
    draft = Draft(request.workspace, request.user)
    if request.method == "POST":
        # How it is played and what it may cost stay as they were filled in; a name told of other tasks.
        draft.document.pop("name", None)
        draft.document.setdefault("kind", Run.Kind.SCRIPTED_TEST.value)
        draft.document["task_set"] = request.POST.get("task_set", "")[:100]
        draft.document["tasks"] = request.POST.getlist("tasks")[: limits.TASKS.high]
        draft.save()
        return _to(request, WORKLOAD)
    asked = request.GET.getlist("task")
    if asked:
        return _to(request, WORKLOAD, f"?{urlencode({'task': asked}, doseq=True)}#tasks")
    return _to(request, draft.first_open() if draft.row else WORKLOAD)


@workspace_page
@require_http_methods(["GET", "HEAD", "POST"])
def step(request: WorkspaceRequest, step: str) -> HttpResponse:
    here = BY_SLUG.get(step)
    if here is None:
        raise Http404("The wizard has no such step.")
    draft = Draft(request.workspace, request.user)
    if request.method == "POST":
        return _save(request, draft, here)
    early = next((one for one in STEPS[: STEPS.index(here)] if not draft.is_passed(one)), None)
    if early is not None:
        messages.warning(request, f"Before {here.title}, {early.title} has to be filled in.")
        return _to(request, early)
    return _show(request, draft, here)


@workspace_page
@require_safe
def preview(request: WorkspaceRequest, step: str) -> HttpResponse:
    """The sums and pictures of a step for what is typed just now. Saves nothing."""
    here = BY_SLUG.get(step)
    if here not in (EXECUTION, BUDGET):
        raise Http404("This step has no preview.")
    draft = Draft(request.workspace, request.user)
    draft.document |= read_step(here, request.GET)
    context = {"draft": draft, "document": draft.document, "preview": True}
    context |= (_execution if here is EXECUTION else _budget)(request, draft, draft.task_set())
    return render(request, f"runs/new/{here.slug}.html#preview", context)


@workspace_page
@require_POST
def discard(request: WorkspaceRequest) -> HttpResponseRedirect:
    Draft(request.workspace, request.user).discard()
    messages.info(request, "The draft was discarded.")
    return HttpResponseRedirect(reverse("run-list", args=[request.workspace.slug]))


@workspace_page
@require_http_methods(["GET", "HEAD", "POST"])
def rerun(request: WorkspaceRequest, number: int) -> HttpResponse:
    """POST: the document of an earlier run becomes the draft; it is reviewed, and launched by hand.

    Where there is a draft with something else in it, GET asks first. Else GET, as of an address that somebody has kept,
    leads to the run.
    """
    run = run_or_404(request, number)
    draft = Draft(request.workspace, request.user)
    other = draft.row is not None and draft.document != Draft.of(run.spec)
    if request.method != "POST":
        if not other:
            return redirect("run", request.workspace.slug, run.number)
        return render_tab(request, run, "run", "runs/replace_draft.html", {"draft": draft})
    if other and request.POST.get("replace") != "yes":
        return redirect("run-rerun", request.workspace.slug, run.number)
    draft.replace(run.spec)
    messages.info(request, f"This is the request of #{run.number}, to be launched again.")
    newer = hosts.newer_with_a_worker(request.workspace, run.template_version)
    if newer is None:
        return _to(request, draft.first_open())
    old = run.template_version
    messages.warning(
        request,
        f"No connected worker has {old} now; one has {newer}, which is newer. Choose it here, or keep {old} and wait.",
    )
    return _to(request, ENVIRONMENT)


def _save(request: WorkspaceRequest, draft: Draft, here: Step) -> HttpResponse:
    if here is REVIEW:
        return _launch(request, draft)
    if here is WORKLOAD:
        if draft.row is None:
            start(draft)  # what the page proposed is what was answered
        task_set = draft.task_set()
        draft.document.update(picker.read(draft, request.POST, picker.rows(task_set)))
    else:
        draft.document = {
            name: value for name, value in draft.document.items() if name not in here.fields
        } | read_step(here, request.POST)
    draft.save()
    do = request.POST.get("do", "next")
    if do == "back":
        return _to(request, before(here) or here)
    if here is WORKLOAD and do != "next":
        query = picker.Filter.of(request.POST).query()
        return _to(request, here, f"?{query}#tasks" if query else "#tasks")
    if draft.errors_of(here) or not draft.is_saved(here):
        return _to(request, here, "?checked=1")
    return _to(request, after(here))


def _launch(request: WorkspaceRequest, draft: Draft) -> HttpResponse:
    """Launch once: the draft's row is locked and gone with the run that it became."""
    try:
        with transaction.atomic():
            drafts = RunDraft.objects.for_workspace(request.workspace).filter(user=request.user)
            if drafts.select_for_update(no_key=True).first() is None:
                messages.warning(request, "This draft has been launched or discarded already.")
                return redirect("run-list", request.workspace.slug)
            run = create_run(
                workspace=request.workspace, document=draft.request(), actor=Actor.person(request.user)
            )
            drafts.delete()
    except spec.SpecRejected as rejected:
        return _to(request, step_of(rejected.errors[0].field), "?checked=1")
    return redirect("run", request.workspace.slug, run.number)


def _to(request: WorkspaceRequest, where: Step, rest: str = "") -> HttpResponseRedirect:
    address = reverse("run-new-step", args=[request.workspace.slug, where.slug])
    return HttpResponseRedirect(address + rest)


def _show(request: WorkspaceRequest, draft: Draft, here: Step) -> HttpResponse:
    tell = "checked" in request.GET or (draft.is_saved(here) and here is not WORKLOAD)
    if draft.row is None:
        start(draft)
    errors = {error.field: error for error in reversed(draft.errors_of(here))} if tell else {}
    task_set = draft.task_set()
    context: dict[str, Any] = {
        "draft": draft,
        "document": draft.document,
        "here": here,
        "steps": _steps(draft, here),
        "previous": before(here),
        "following": None if here is REVIEW else after(here),
        "errors": errors,
        "picked": None,
        "wrong": [(LABELS[field], errors[field]) for field in here.fields if field in errors],
        "task_set": task_set,
    }
    context |= {
        WORKLOAD: _workload,
        ENVIRONMENT: _environment,
        EXECUTION: _execution,
        BUDGET: _budget,
        REVIEW: _review,
    }[here](request, draft, task_set)
    return render(request, f"runs/new/{here.slug}.html", context)


def _steps(draft: Draft, here: Step) -> list[dict[str, Any]]:
    """Each step with whether it is passed and whether it can be gone to."""
    steps, reachable = [], True
    for one in STEPS:
        passed = draft.is_passed(one)
        steps.append({"step": one, "here": one is here, "passed": passed, "reachable": reachable})
        reachable = reachable and passed
    return steps


def _workload(request: WorkspaceRequest, draft: Draft, task_set: TaskSet | None) -> dict[str, Any]:
    tasks = picker.rows(task_set)
    known = {row.task_id for row in tasks if row.has_recipe}
    asked = request.GET.getlist("task")[: limits.TASKS.high]
    chosen = set(draft.tasks) | (known & set(asked))
    shown_filter = picker.Filter.of(request.GET)
    fits = {row.task_id: shown_filter.matches(row, chosen) for row in tasks}
    whole = len(tasks) <= picker.SHOWN_MOST
    # Rows that do not fit are there and hidden: their ticks are posted, and a script can show them at once.
    rows = [(row, fits[row.task_id]) for row in tasks if whole or fits[row.task_id]][: picker.SHOWN_MOST]
    here = {row.task_id for row, _ in rows}
    fitting = sum(fits.values())
    return {
        "sets": TaskSet.objects.for_workspace(request.workspace).current(),
        "filter": shown_filter,
        "apps": picker.apps_of(tasks),
        "rows": rows,
        "whole": whole,
        "fitting": fitting,
        "left_out": 0 if whole else max(0, fitting - picker.SHOWN_MOST),
        "elsewhere": len(chosen - here),
        "total": len(tasks),
        "with_recipe": sum(row.has_recipe for row in tasks),
        "chosen": chosen,
        "unknown": [
            one for one in dict.fromkeys([*draft.tasks, *asked]) if one not in {row.task_id for row in tasks}
        ],
        "chosen_without": sum(row.task_id in chosen and not row.has_recipe for row in tasks),
        "most": limits.TASKS.high,
        "name_length": limits.NAME_LENGTH,
    }


def _environment(request: WorkspaceRequest, draft: Draft, task_set: TaskSet | None) -> dict[str, Any]:
    choices = hosts.choices(request.workspace, draft)
    picked = draft.document.get("template")
    suggested = next((choice for choice in choices if choice.suggested), None)
    return {
        "choices": choices,
        "workers": hosts.workers(request.workspace),
        "picked": picked or (str(suggested.version) if suggested else None),
        "picked_choice": next((one for one in choices if str(one.version) == picked), suggested),
    }


def _execution(request: WorkspaceRequest, draft: Draft, task_set: TaskSet | None) -> dict[str, Any]:
    knobs = []
    for name in EXECUTION.fields:
        allowed: limits.Range = getattr(limits, name.upper())
        knobs.append(
            {
                "name": name,
                "label": LABELS[name],
                "range": allowed,
                "value": draft.document.get(name, allowed.default),
                "help": HELP[name].format(parallelism=request.workspace.run_parallelism),
            }
        )
    return {
        "knobs": knobs,
        "sketch": sketch(draft),
        "forecast": _forecast(request, draft),
        "sum": [
            (len(draft.tasks), "task", "tasks", ""),
            (draft.number("parallel_copies"), "copy", "copies", "copies"),
            (draft.number("fork_copies"), "fork", "forks", "forks"),
            (draft.number("rounds"), "round", "rounds", "rounds"),
        ],
        "limits": limits,
    }


def _budget(request: WorkspaceRequest, draft: Draft, task_set: TaskSet | None) -> dict[str, Any]:
    budget = hosts.root_budget(request.workspace)
    return {
        "forecast": _forecast(request, draft),
        "budget": budget,
        "used": so_far(request.workspace, [budget], request.now)[budget.pk],
        "limits": limits,
        "time_cap": draft.document.get("time_cap_minutes", limits.TIME_CAP_MINUTES.default),
    }


def _review(request: WorkspaceRequest, draft: Draft, task_set: TaskSet | None) -> dict[str, Any]:
    version = hosts.version_of(request.workspace, draft)
    expected = _forecast(request, draft)
    budget = hosts.root_budget(request.workspace)
    return {
        "version": version,
        "forecast": expected,
        "budget": budget,
        "samples": request_code.samples(draft.request()),
        "request_document": draft.request(),
        "hosts": forecast.hosts_for(request.workspace, version) if version else [],
        "cut_short": forecast.cut_short(draft),
        "cap_fits": budget.left is None or expected is None or (expected.cap or 0) <= budget.left,
        "left_at_worst": None
        if budget.left is None or expected is None or expected.cap is None
        else budget.left - expected.cap,
    }


def _forecast(request: WorkspaceRequest, draft: Draft) -> forecast.Forecast | None:
    version = hosts.version_of(request.workspace, draft)
    return forecast.forecast(request.workspace, version, draft) if version else None
