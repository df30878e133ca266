"""The run or attempt an address names, from its workspace; else 404."""

from __future__ import annotations

from django.http import Http404, HttpRequest

from console.pages.loaders import WorkspaceRequest
from runs.models import Attempt, Run


def run_or_404(request: WorkspaceRequest, number: int) -> Run:
    run = (
        Run.objects.for_workspace(request.workspace)
        .select_related("task_set", "template_version__template", "budget", "creator")
        .filter(number=number)
        .first()
    )
    if run is None:
        raise Http404(f"No run #{number}.")
    run.workspace = request.workspace
    return run


def attempt_or_404(run: Run, number: int) -> Attempt:
    attempt = run.attempts.select_related("task", "worker", "computer").filter(number=number).first()
    if attempt is None:
        raise Http404(f"No attempt {number} in run #{run.number}.")
    attempt.run = run
    return attempt


def base_template(request: HttpRequest) -> str:
    """The whole shell, or for a script that renews a page only its live parts."""
    return "shared/parts.html" if request.headers.get("HX-Request") == "true" else "shell.html"
