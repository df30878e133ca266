"""Changing a run's caps while it is going: a page with the form, for whoever has no scripts, and the deed."""

from __future__ import annotations

import re

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from console.actor import Actor
from console.pages.loaders import WorkspaceRequest, workspace_page
from runs.actions.caps import CapsRejected, MayNotChange, NotGoing, change_cap
from runs.actions.stop import may_cancel
from runs.pages.frame import never_stored, render_tab
from runs.pages.loaders import run_or_404
from runs.spec import CapsSerializer


@require_http_methods(["GET", "HEAD", "POST"])
@never_stored
@workspace_page
def caps(request: WorkspaceRequest, number: int) -> HttpResponse:
    run = run_or_404(request, number)
    if not may_cancel(run, request.membership):
        raise PermissionDenied(str(MayNotChange()))
    if request.method != "POST":
        return render_tab(request, run, "run", "runs/caps.html", {})
    typed = typed_caps(request)
    asked = CapsSerializer(data=typed)
    if not asked.is_valid():
        errors = {field: str(words[0]) for field, words in asked.errors.items()}
        return render_tab(request, run, "run", "runs/caps.html", {"typed": typed, "errors": errors}, 422)
    try:
        change_cap(run, **asked.validated_data, actor=Actor.person(request.user))
    except CapsRejected as rejected:
        errors = {error.field: error.message for error in rejected.errors}
        return render_tab(request, run, "run", "runs/caps.html", {"typed": typed, "errors": errors}, 422)
    except NotGoing as ended:
        messages.info(request, str(ended))
    except MayNotChange as refused:
        raise PermissionDenied(str(refused)) from refused
    else:
        messages.success(request, "The caps are changed and hold from now on.")
    return redirect("run", request.workspace.slug, run.number)


def typed_caps(request: WorkspaceRequest) -> dict[str, str | int]:
    """What was typed, as people type it; an empty field leaves its cap as it is."""
    spend = request.POST.get("spend_cap_usd", "").strip().removeprefix("$").replace(",", "")[:60]
    minutes = request.POST.get("time_cap_minutes", "").strip().replace(",", "")[:20]
    typed: dict[str, str | int] = {
        "spend_cap_usd": spend,
        "time_cap_minutes": int(minutes) if re.fullmatch(r"-?[0-9]{1,9}", minutes) else minutes,
    }
    return {name: value for name, value in typed.items() if value != ""}
