"""Screenshots and evidence, to members of the workspace that holds them."""

from __future__ import annotations

from django.http import FileResponse, Http404, HttpResponseNotModified
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from console.models import Blob

from .loaders import WorkspaceRequest, workspace_page

# What a browser may show by itself; anything else is a download, so that no evidence runs as a page of ours.
SHOWN = ("image/png", "image/jpeg", "image/webp", "text/plain")
YEAR = 31_536_000


@require_safe
@workspace_page
def blob(request: WorkspaceRequest, sha256: str) -> HttpResponseBase:
    row = Blob.objects.for_workspace(request.workspace).filter(sha256=sha256).first()
    if row is None:
        raise Http404("No such file.")
    etag = f'"{row.sha256}"'
    reply: HttpResponseBase
    if request.headers.get("If-None-Match") == etag:
        reply = HttpResponseNotModified()
    else:
        shown = row.content_type.split(";")[0] in SHOWN
        reply = FileResponse(
            Blob.storage().open(row.path),
            content_type=row.content_type if shown else "application/octet-stream",
            as_attachment=not shown,
            filename=row.sha256,
        )
    reply["ETag"] = etag
    reply["Cache-Control"] = f"private, max-age={YEAR}, immutable"  # the address is the content's digest
    return reply
