"""Cancelling: a page that asks, for whoever has no scripts, and the deed."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from console.actor import Actor
from console.pages.loaders import WorkspaceRequest, workspace_page
from runs.actions.stop import MayNotCancel, NotCancellable, cancel_run, may_cancel
from runs.pages.frame import never_stored, render_tab
from runs.pages.loaders import run_or_404


@require_http_methods(["GET", "POST"])
@never_stored
@workspace_page
def cancel(request: WorkspaceRequest, number: int) -> HttpResponse:
    run = run_or_404(request, number)
    if not may_cancel(run, request.membership):
        raise PermissionDenied(
            "You may see this run, but not cancel it. That is for the person who started it, and for admins and owners."
        )
    if request.method == "GET":
        return render_tab(request, run, "run", "runs/cancel.html", {})
    try:
        cancel_run(run, actor=Actor.person(request.user))
    except NotCancellable as ended:
        messages.info(request, str(ended))
    except MayNotCancel as refused:
        raise PermissionDenied(str(refused)) from refused
    else:
        messages.success(request, "Cancelling. Its desktops are going away; what has a verdict keeps it.")
    return redirect("run", request.workspace.slug, run.number)
