"""Trying attempts without a verdict again: a page that asks, with room for higher caps, and the deed."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from console.actor import Actor
from console.pages.loaders import WorkspaceRequest, workspace_page
from runs import scoring
from runs.actions.caps import CapsRejected
from runs.actions.retry import CannotRetry, MayNotRetry, retry_invalid
from runs.actions.stop import may_cancel
from runs.pages.caps import typed_caps
from runs.pages.frame import never_stored, render_tab
from runs.pages.loaders import run_or_404
from runs.spec import CapsSerializer


@require_http_methods(["GET", "HEAD", "POST"])
@never_stored
@workspace_page
def retry(request: WorkspaceRequest, number: int) -> HttpResponse:
    run = run_or_404(request, number)
    if not may_cancel(run, request.membership):
        raise PermissionDenied(
            "You may see this run, but not have it try again. That is for the person who started it, and for admins "
            "and owners."
        )

    def page(status: int = 200, **more: Any) -> HttpResponse:
        context = {"count": scoring.unjudged(run), **more}
        return render_tab(request, run, "run", "runs/retry.html", context, status)

    if request.method != "POST":
        return page()
    typed = typed_caps(request)
    asked = CapsSerializer(data=typed)
    if not asked.is_valid():
        return page(422, typed=typed, errors={name: str(words[0]) for name, words in asked.errors.items()})
    try:
        count = retry_invalid(run, **asked.validated_data, actor=Actor.person(request.user))
    except CapsRejected as rejected:
        errors = {error.field: error.message for error in rejected.errors}
        return page(422, typed=typed, errors=errors, wrong=errors.get("", ""))
    except CannotRetry as refused:
        messages.info(request, str(refused))
    except MayNotRetry as refused:
        raise PermissionDenied(str(refused)) from refused
    else:
        them = "It is" if count == 1 else f"All {count:,} are"
        messages.success(request, f"{them} queued again. Every earlier try is kept.")
    return redirect("run", request.workspace.slug, run.number)
