"""Templates: every version with the workers that have its image; one template with all its versions."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from console.models import Workspace
from console.pages.loaders import WorkspaceRequest, workspace_page
from desktops.models import Template, TemplateVersion, Worker


@dataclass(frozen=True)
class VersionRow:
    """Workers by what they have: `on` and `off` the very image (connected, not connected), `differing` an image
    of this name and version that was built from something else, which no run of this version uses."""

    version: TemplateVersion
    on: list[Worker]
    off: list[Worker]
    differing: list[Worker]


def _rows(workspace: Workspace, versions: list[TemplateVersion]) -> list[VersionRow]:
    workers = list(Worker.objects.for_workspace(workspace))
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


@workspace_page
@require_safe
def template_list(request: WorkspaceRequest) -> HttpResponse:
    versions = list(
        TemplateVersion.objects.filter(template__workspace=request.workspace).select_related("template")
    )
    published = sum(version.status == TemplateVersion.Status.PUBLISHED for version in versions)
    drafts = sum(version.status == TemplateVersion.Status.DRAFT for version in versions)
    context = {"rows": _rows(request.workspace, versions), "published": published, "drafts": drafts}
    return render(request, "desktops/templates.html", context)


@workspace_page
@require_safe
def template(request: WorkspaceRequest, name: str) -> HttpResponse:
    """The version asked for by `?version=`, else the newest published, else the newest."""
    found = Template.objects.for_workspace(request.workspace).filter(name=name).first()
    if found is None:
        raise Http404("No such template.")
    versions = list(found.versions.select_related("template").order_by("-version"))
    asked = request.GET.get("version")
    rows = _rows(request.workspace, versions)
    if asked:
        picked = next((row for row in rows if str(row.version.version) == asked), None)
        if picked is None:
            raise Http404("No such version.")
    else:
        published = (row for row in rows if row.version.status == TemplateVersion.Status.PUBLISHED)
        picked = next(published, rows[0] if rows else None)
    return render(request, "desktops/template.html", {"template": found, "rows": rows, "picked": picked})
