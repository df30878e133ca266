"""Export provenance: the run's signed manifest as a file, the same as the API's."""

from __future__ import annotations

from django.http import JsonResponse
from django.views.decorators.http import require_safe

from console.pages.loaders import WorkspaceRequest, workspace_page
from runs.pages.frame import never_stored
from runs.pages.loaders import run_or_404
from runs.provenance import manifest


@require_safe
@never_stored
@workspace_page
def export(request: WorkspaceRequest, number: int) -> JsonResponse:
    run = run_or_404(request, number)
    name = f'attachment; filename="run-{run.number}-provenance.json"'
    return JsonResponse(manifest(run), headers={"Content-Disposition": name})
