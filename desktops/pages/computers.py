"""Computers that people open: those that are there and those that were, opening one, one of them, closing it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import F
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actions.workspaces import NotAllowed
from console.actor import Actor
from console.models import Workspace
from console.pages.loaders import WorkspaceRequest, workspace_page
from console.pages.paging import by_moment
from desktops import limits
from desktops.actions import asks, holds
from desktops.actions.templates import draft_from
from desktops.actions.views import TICKET, NotLive, let_watch
from desktops.api.computers import DraftSerializer, SavingSerializer
from desktops.models import Ask, Hold, State, Template
from desktops.opening import OpeningSerializer
from desktops.subjects import Subject

from .prices import offers

ROWS: Final = 30
MOST_LIVE: Final = 100
MOST_STATES: Final = 100
MOST_ASKS: Final = 20


def hold_or_404(workspace: Workspace, hold_id: uuid.UUID) -> Hold:
    hold: Hold | None = holds.rows().filter(workspace=workspace, pk=hold_id).first()
    if hold is None:
        raise Http404("No such computer.")
    return hold


def holds_named(workspace: Workspace, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Subject]:
    """Computers, as the pages of workers and saved desktops name them."""
    rows = holds.rows().filter(workspace=workspace, pk__in=ids)
    return {
        hold.pk: Subject(
            f"Computer {hold.label or ''}".strip(), reverse("computer", args=[workspace.slug, hold.pk])
        )
        for hold in rows
    }


def _parts(request: WorkspaceRequest) -> str:
    """The whole shell, or for a script that renews a page only its live parts."""
    return "shared/parts.html" if request.headers.get("HX-Request") == "true" else "shell.html"


def _may_use(request: WorkspaceRequest, hold: Hold) -> bool:
    return request.membership.manages or hold.opened_by_id == request.user.pk


@require_safe
@never_cache
@workspace_page
def computer_list(request: WorkspaceRequest) -> HttpResponse:
    rows = holds.rows().filter(workspace=request.workspace)
    live = list(
        rows.filter(status__in=Hold.LIVE).order_by(F("started_at").desc(nulls_last=True), "-created_at")[
            :MOST_LIVE
        ]
    )
    ended = rows.exclude(status__in=Hold.LIVE).exclude(
        pk__in=[hold.pk for hold in live]
    )  # it may close in between
    context = {
        "base_template": _parts(request),
        "live": [(hold, holds.cost_so_far(hold)) for hold in live],
        "ended": by_moment(ended, request.GET, rows=ROWS, field="created_at"),
    }
    return render(request, "desktops/computers.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@workspace_page
def new(request: WorkspaceRequest) -> HttpResponse:
    """`?template=` or `?state=` has it chosen already."""
    if request.method != "POST":
        return _form(request, _usual(request))
    typed = _typed(request)
    asked = OpeningSerializer(data=typed, context={"workspace": request.workspace})
    if not asked.is_valid():
        errors = {field: str(words[0]) for field, words in asked.errors.items()}
        return _form(request, request.POST.dict(), errors, 422)
    hold = holds.open_computer(
        workspace=request.workspace,
        template_version=asked.validated_data["template_version"],
        state=asked.validated_data["saved"],
        idle_minutes=asked.validated_data["idle_minutes"],
        max_minutes=asked.validated_data["max_minutes"],
        spend_cap=asked.validated_data["spend_cap_usd"],
        actor=Actor.person(request.user),
    )
    return redirect("computer", request.workspace.slug, hold.pk)


def _form(
    request: WorkspaceRequest,
    typed: dict[str, str],
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    found = State.objects.for_workspace(request.workspace).held().filter(template_version__isnull=False)
    states = found.exclude(origin__in=State.REMADE).select_related("worker", "template_version__template")
    context = {
        "offers": [(f"template:{offer.version}", offer) for offer in offers(request.workspace)],
        "states": [(f"state:{one.pk}", one) for one in states.order_by("-made_at")[:MOST_STATES]],
        "typed": typed,
        "errors": errors or {},
        "start_error": (errors or {}).get("template") or (errors or {}).get("state"),
        "limits": limits,
    }
    return render(request, "desktops/computer_new.html", context, status=status)


def _usual(request: WorkspaceRequest) -> dict[str, str]:
    start = next((f"{kind}:{request.GET[kind]}" for kind in ("template", "state") if kind in request.GET), "")
    return {
        "start": start,
        "idle_minutes": str(limits.IDLE_MINUTES.default),
        "max_minutes": str(limits.MAX_MINUTES.default),
        "spend_cap_usd": f"{limits.SPEND_CAP:.2f}",
    }


def whole_or_text(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?[0-9]{1,9}", text) else text


def _typed(request: WorkspaceRequest) -> dict[str, Any]:
    """The document that the form says."""
    kind, _, named = request.POST.get("start", "")[:200].partition(":")
    typed: dict[str, Any] = {kind: named} if kind in ("template", "state") and named else {}
    for name in ("idle_minutes", "max_minutes"):
        text = request.POST.get(name, "").strip()[:20]
        typed[name] = whole_or_text(text)
    typed["spend_cap_usd"] = request.POST.get("spend_cap_usd", "").strip().removeprefix("$")[:60]
    return typed


@require_safe
@never_cache
@workspace_page
def computer(request: WorkspaceRequest, hold_id: uuid.UUID) -> HttpResponse:
    hold = hold_or_404(request.workspace, hold_id)
    asked = list(hold.asks.select_related("state", "template_version__template")[:MOST_ASKS])
    may_use = _may_use(request, hold)
    context = {
        "base_template": _parts(request),
        "hold": hold,
        "spent": holds.cost_so_far(hold),
        "asked": asked,
        "busy": any(ask.status == Ask.Status.ASKED for ask in asked),
        "may_use": may_use,
        **(_keeping(request, hold) if may_use else {}),
    }
    return render(request, "desktops/computer.html", context)


def _keeping(request: WorkspaceRequest, hold: Hold) -> dict[str, Any]:
    """What the two forms of saving show."""
    names = Template.objects.for_workspace(request.workspace).values_list("name", flat=True)
    return {
        "template_names": list(names),
        "limits": limits,
        "typed": {"keep_days": limits.KEEP_DAYS.default},
        "usual_name": hold.template_version.template.name,
    }


@require_POST
@never_cache
@workspace_page
def ticket(request: WorkspaceRequest, hold_id: uuid.UUID) -> HttpResponse:
    """To watch it, for one socket of this browser."""
    return _ticket(request, hold_or_404(request.workspace, hold_id), drives=False)


@require_POST
@never_cache
@workspace_page
def ticket_to_drive(request: WorkspaceRequest, hold_id: uuid.UUID) -> HttpResponse:
    """The same, with the person's keys and pointer."""
    hold = _usable(request, hold_id)
    holds.used(hold)
    return _ticket(request, hold, drives=True)


def _ticket(request: WorkspaceRequest, hold: Hold, *, drives: bool) -> HttpResponse:
    try:
        if hold.computer is None:
            raise NotLive("This computer has not started.")
        by_role = drives and hold.opened_by_id != request.user.pk
        secret = let_watch(hold.computer, drives=drives, by_role=by_role, actor=Actor.person(request.user))
    except NotLive as ended:
        return JsonResponse({"detail": str(ended)}, status=409)
    return JsonResponse({"socket": f"/ws/live/{secret}", "seconds": TICKET.seconds})


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@workspace_page
def close(request: WorkspaceRequest, hold_id: uuid.UUID) -> HttpResponse:
    hold = _usable(request, hold_id)
    if request.method != "POST":
        return render(request, "desktops/computer_close.html", {"hold": hold})
    holds.close_computer(hold, actor=Actor.person(request.user))
    return redirect("computer", request.workspace.slug, hold.pk)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@workspace_page
def save(request: WorkspaceRequest, hold_id: uuid.UUID) -> HttpResponse:
    hold = _usable(request, hold_id)

    def act(said: dict[str, Any]) -> None:
        asks.save_computer(hold, **said, actor=Actor.person(request.user))

    return _keep(request, hold, "desktops/computer_save.html", SavingSerializer, ("label", "keep_days"), act)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@workspace_page
def save_as_template(request: WorkspaceRequest, hold_id: uuid.UUID) -> HttpResponse:
    hold = _usable(request, hold_id)

    def act(said: dict[str, Any]) -> None:
        draft_from(hold, **said, actor=Actor.person(request.user))

    return _keep(request, hold, "desktops/computer_template.html", DraftSerializer, ("name", "title"), act)


def _usable(request: WorkspaceRequest, hold_id: uuid.UUID) -> Hold:
    hold = hold_or_404(request.workspace, hold_id)
    try:
        holds.require_may_use(hold, Actor.person(request.user), what="use it")
    except NotAllowed as error:
        raise PermissionDenied(str(error)) from error
    return hold


def _keep(
    request: WorkspaceRequest,
    hold: Hold,
    page: str,
    serializer: type[Any],
    fields: tuple[str, ...],
    act: Callable[[dict[str, Any]], None],
) -> HttpResponse:
    context = {"hold": hold, **_keeping(request, hold)}
    if request.method != "POST":
        return render(request, page, context)
    typed = {name: request.POST[name].strip()[:1000] for name in fields if name in request.POST}
    numbers = {name: whole_or_text(typed[name][:20]) for name in ("keep_days",) if name in typed}
    asked = serializer(data={**typed, **numbers})
    if not asked.is_valid():
        errors = {field: str(words[0]) for field, words in asked.errors.items()}
        return render(request, page, {**context, "typed": typed, "errors": errors}, status=422)
    try:
        act(asked.validated_data)
    except holds.NotReady as why:
        messages.warning(request, str(why))
    return redirect("computer", request.workspace.slug, hold.pk)
