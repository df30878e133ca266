"""Templates: every version with the workers that have its image; one template with all its versions."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.db.models import Count, Max, Min
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from console.actor import Actor
from console.models import Workspace
from console.money import dollars
from console.pages.loaders import WorkspaceRequest, managers_only, workspace_page
from desktops.actions.templates import NotADraft, NotMadeYet, discard_draft, publish_draft
from desktops.models import Template, TemplateVersion, Worker, WorkerRate


@dataclass(frozen=True)
class VersionRow:
    """Workers by what they have: `on` and `off` the very image (connected, not connected), `differing` an image
    of this name and version that was built from something else, which no run of this version uses."""

    version: TemplateVersion
    on: list[Worker]
    off: list[Worker]
    differing: list[Worker]


def _rows(workspace: Workspace, versions: list[TemplateVersion]) -> list[VersionRow]:
    workers = list(Worker.objects.for_workspace(workspace).listed())
    rows = []
    for version in versions:
        having = [one for one in workers if one.has_image(version.template.name, version.digest)]
        named = [one for one in workers if one.is_connected and _names(one, version)]
        rows.append(
            VersionRow(
                version,
                on=[one for one in having if one.is_connected],
                off=[one for one in having if not one.is_connected],
                differing=[one for one in named if one not in having] if version.digest else [],
            )
        )
    return rows


def _names(worker: Worker, version: TemplateVersion) -> bool:
    wanted = (version.template.name, version.version)
    return any((image["name"], image["version"]) == wanted for image in worker.images)


def _rate_spans(workspace: Workspace) -> dict[int, str]:
    """Templates, by primary key, that cost something else on some workers, in words."""
    found = WorkerRate.objects.filter(template__workspace=workspace).values_list("template").order_by()
    spans = found.annotate(low=Min("rate_usd_per_hour"), high=Max("rate_usd_per_hour"), workers=Count("pk"))
    return {
        pk: f"{dollars(low)}{'' if low == high else f' to {dollars(high)}'} on {workers} worker{'s'[: workers > 1]}"
        for pk, low, high, workers in spans
    }


@workspace_page
@require_safe
def template_list(request: WorkspaceRequest) -> HttpResponse:
    versions = list(
        TemplateVersion.objects.filter(template__workspace=request.workspace).select_related(
            "template", "base__template"
        )
    )
    published = sum(version.status == TemplateVersion.Status.PUBLISHED for version in versions)
    drafts = sum(version.status == TemplateVersion.Status.DRAFT for version in versions)
    context = {
        "rows": _rows(request.workspace, versions),
        "published": published,
        "drafts": drafts,
        "own_rates": _rate_spans(request.workspace),
    }
    return render(request, "desktops/templates.html", context)


@workspace_page
@require_safe
def template(request: WorkspaceRequest, name: str) -> HttpResponse:
    """The version asked for by `?version=`, else the newest published, else the newest."""
    found = Template.objects.for_workspace(request.workspace).filter(name=name).first()
    if found is None:
        raise Http404("No such template.")
    versions = list(found.versions.select_related("template", "base__template").order_by("-version"))
    asked = request.GET.get("version")
    rows = _rows(request.workspace, versions)
    if asked:
        picked = next((row for row in rows if str(row.version.version) == asked), None)
        if picked is None:
            raise Http404("No such version.")
    else:
        published = (row for row in rows if row.version.status == TemplateVersion.Status.PUBLISHED)
        picked = next(published, rows[0] if rows else None)
    own_rates = list(found.worker_rates.select_related("worker"))
    context = {"template": found, "rows": rows, "picked": picked, "own_rates": own_rates}
    return render(request, "desktops/template.html", context)


def _draft_or_404(workspace: Workspace, name: str, version: int) -> TemplateVersion:
    versions = TemplateVersion.objects.filter(template__workspace=workspace, template__name=name)
    found = versions.select_related("template__workspace").filter(version=version).first()
    if found is None:
        raise Http404("No such version.")
    return found


def _ask(request: WorkspaceRequest, draft: TemplateVersion, word: str) -> HttpResponse:
    """Whether it is meant: neither can be undone."""
    if draft.status != TemplateVersion.Status.DRAFT:
        messages.info(request, str(NotADraft()))
        return _back_to(draft, request)
    context = {"version": draft, "word": word, "form": f"desktops/template_{word.lower()}_form.html"}
    return render(request, "desktops/template_ask.html", context)


def _back_to(version: TemplateVersion, request: WorkspaceRequest) -> HttpResponse:
    page = reverse("template", args=[request.workspace.slug, version.template.name])
    return redirect(f"{page}?version={version.version}")


@workspace_page
@require_http_methods(["GET", "HEAD", "POST"])
@managers_only
def publish(request: WorkspaceRequest, name: str, version: int) -> HttpResponse:
    draft = _draft_or_404(request.workspace, name, version)
    if request.method != "POST":
        return _ask(request, draft, "Publish")
    try:
        published = publish_draft(draft, actor=Actor.person(request.user))
    except (NotADraft, NotMadeYet) as why:
        messages.warning(request, str(why))
    else:
        messages.success(request, f"{published} is published: every member may run it, and it never changes.")
    return _back_to(draft, request)


@workspace_page
@require_http_methods(["GET", "HEAD", "POST"])
@managers_only
def discard(request: WorkspaceRequest, name: str, version: int) -> HttpResponse:
    draft = _draft_or_404(request.workspace, name, version)
    if request.method != "POST":
        return _ask(request, draft, "Discard")
    try:
        discard_draft(draft, actor=Actor.person(request.user))
    except (NotADraft, NotMadeYet) as why:
        messages.warning(request, str(why))
    else:
        messages.info(request, f"The draft {draft} is discarded.")
    return redirect("template-list", request.workspace.slug)
