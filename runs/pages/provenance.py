"""Export provenance: the run's signed manifest as a file, the same as the API's."""

from __future__ import annotations

from django.contrib import messages
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from console.pages.loaders import WorkspaceRequest, workspace_page
from runs.pages.frame import never_stored
from runs.pages.loaders import run_or_404
from runs.provenance import NotEnded, as_file


@require_safe
@never_stored
@workspace_page
def export(request: WorkspaceRequest, number: int) -> HttpResponseBase:
    run = run_or_404(request, number)
    try:
        return as_file(run)
    except NotEnded as error:
        messages.error(request, str(error))
        return redirect("run-configuration", workspace=request.workspace.slug, number=run.number)
