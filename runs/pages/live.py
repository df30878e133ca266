"""One desktop of a run, live: the page, its tickets, and taking it over."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from console.actor import Actor
from console.models import LedgerEntry
from console.pages.loaders import WorkspaceRequest, workspace_page
from desktops.actions.views import TICKET, NotLive, let_watch
from desktops.models import Computer, LiveView
from runs.actions.live import CannotTakeOver, MayNotTakeOver, playing_on, take_over
from runs.actions.stop import may_cancel
from runs.models import AttemptTry, Run
from runs.pages import sentences
from runs.pages.frame import never_stored
from runs.pages.loaders import base_template, run_or_404

LAST_ACTIONS = 8


def computer_or_404(run: Run, number: int) -> Computer:
    computer = (
        Computer.objects.for_workspace(run.workspace)
        .select_related("worker", "assignment", "template_version__template")
        .defer("assignment__payload")
        .filter(group=run.pk, number=number)
        .first()
    )
    if computer is None:
        raise Http404(f"No computer {number} in run #{run.number}.")
    computer.workspace = run.workspace
    return computer


@require_safe
@never_stored
@workspace_page
def live(request: WorkspaceRequest, number: int, computer: int) -> HttpResponse:
    run = run_or_404(request, number)
    one = computer_or_404(run, computer)
    played = (
        AttemptTry.objects.filter(computer=one)
        .select_related("attempt__task")
        .defer("verdict", "attempt__task__document", "attempt__task__recipe")
        .first()
    )
    up = (one.stopped_at or timezone.now()) - one.started_at
    context = {
        "base_template": base_template(request),
        "slug": request.workspace.slug,
        "run": run,
        "computer": one,
        "played": played,
        "attempt": played.attempt if played else None,
        "up": up.total_seconds(),
        "cost": LedgerEntry.objects.filter(subject=one.pk).values_list("cost", flat=True).first(),
        "held": Computer.objects.for_workspace(run.workspace).filter(group=run.pk).held().count(),
        "watching": _watching(one),
        "taken_over": played is not None and played.ok is None and bool(played.invalid_reasons),
        "may_take_over": may_cancel(run, request.membership) and playing_on(one) is not None,
        "last_actions": _last_actions(played) if played else [],
        "is_live": one.stopped_at is None,
        "why_gone": sentences.why_gone(one.stop_reason),
    }
    reply = render(request, "runs/live.html", context)
    reply["Vary"] = "HX-Request, Cookie"
    return reply


@require_POST
@never_stored
@workspace_page
def ticket(request: WorkspaceRequest, number: int, computer: int) -> HttpResponse:
    """For one socket of this browser."""
    one = computer_or_404(run_or_404(request, number), computer)
    try:
        return _socket(let_watch(one, actor=Actor.person(request.user)))
    except NotLive as ended:
        return _refused(ended)


@require_POST
@never_stored
@workspace_page
def ticket_to_drive(request: WorkspaceRequest, number: int, computer: int) -> HttpResponse:
    """The same, with the person's keys and pointer."""
    run = run_or_404(request, number)
    one = computer_or_404(run, computer)
    try:
        return _socket(take_over(run, one, actor=Actor.person(request.user)))
    except MayNotTakeOver as refused:
        raise PermissionDenied(str(refused)) from refused
    except (CannotTakeOver, NotLive) as ended:
        return _refused(ended)


def _socket(secret: str) -> JsonResponse:
    return JsonResponse({"socket": f"/ws/live/{secret}", "seconds": TICKET.seconds})


def _refused(why: Exception) -> JsonResponse:
    return JsonResponse({"detail": str(why)}, status=409)


def _watching(computer: Computer) -> list[LiveView]:
    views = LiveView.objects.for_workspace(computer.workspace).open().filter(computer=computer)
    return list(views.select_related("user").order_by("opened_at"))


def _last_actions(played: AttemptTry) -> list[dict[str, Any]]:
    steps = played.steps.order_by("-number")[:LAST_ACTIONS]
    return [
        {
            "step": step,
            "icon": sentences.ACTION_ICONS.get(step.action.get("action", ""), "mouse-pointer-2"),
            "name": step.action.get("action", ""),
            "words": sentences.action_words(step.action),
        }
        for step in steps
    ]
