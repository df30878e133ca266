"""Files by their digest: workers put them, readers get them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import status
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from console.actions.blobs import MAX_BYTES, DigestMismatch, store_blob
from console.models import Blob, Scope, Workspace

from .authentication import WorkspaceTokenAuthentication
from .problems import FieldProblem, InvalidRequest, too_large
from .views import WorkspaceView

_PICTURES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}
YEAR = 31_536_000


class WorkerBlobView(WorkspaceView):
    """The workers' door: send a file before the record that names it."""

    authentication_classes = [WorkspaceTokenAuthentication]
    scopes = {"PUT": Scope.WORKERS_CONNECT, "HEAD": Scope.WORKERS_CONNECT}
    problems: ClassVar = ("422",)
    http_method_names = ["head", "put"]

    @extend_schema(
        summary="Store a file",
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={200: OpenApiResponse(description="Stored, or stored before.")},
    )
    def put(self, request: Request, sha256: str) -> Response:
        """Idempotent. At most 64 MiB; the bytes must have the digest of the address."""
        data = _read(request)
        try:
            blob = store_blob(
                workspace=self.workspace, sha256=sha256, data=data, content_type=_content_type(data)
            )
        except DigestMismatch as error:
            wrong = "The body does not have this digest."
            raise InvalidRequest(
                [FieldProblem(field="sha256", code="digest_mismatch", message=wrong)], code="digest_mismatch"
            ) from error
        return Response({"sha256": blob.sha256, "size": blob.size})

    @extend_schema(summary="Is a file stored?", responses={200: OpenApiResponse(description="It is.")})
    def head(self, request: Request, sha256: str) -> Response:
        if not Blob.objects.for_workspace(self.workspace).filter(sha256=sha256).exists():
            raise NotFound
        return Response()


class BlobView(WorkspaceView):
    scopes = {"GET": Scope.RUNS_READ}
    problems: ClassVar = ()

    @extend_schema(
        summary="Read a file",
        description="A screenshot or a file that a checker read, by its SHA-256.",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    def get(self, request: Request, sha256: str) -> HttpResponse:
        return serve(request, self.workspace, sha256)


def serve(request: Request, workspace: Workspace, sha256: str) -> HttpResponse:
    """The file, for ever the same under its digest; never shown by a browser unless it is a picture."""
    blob = Blob.objects.for_workspace(workspace).filter(sha256=sha256).first() if sha256 else None
    if blob is None:
        raise NotFound
    headers: dict[str, Any] = {
        "ETag": f'"{blob.sha256}"',
        "Cache-Control": f"private, max-age={YEAR}, immutable",
    }
    if request.headers.get("If-None-Match") == headers["ETag"]:
        return HttpResponse(status=status.HTTP_304_NOT_MODIFIED, headers=headers)
    picture = blob.content_type in _PICTURES.values()
    shown, extension = ("inline", "." + blob.content_type[6:]) if picture else ("attachment", "")
    headers["Content-Disposition"] = f'{shown}; filename="{blob.sha256[:16]}{extension}"'
    # Whole, not streamed: an ASGI server would gather a file's chunks first anyway.
    with Blob.storage().open(blob.path) as file:
        data = file.read()
    kind = blob.content_type if picture else "application/octet-stream"
    return HttpResponse(data, content_type=kind, headers=headers)


def _read(request: Request) -> bytes:
    length = request.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) > MAX_BYTES:
        raise too_large(MAX_BYTES)
    data: bytes = request._request.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise too_large(MAX_BYTES)
    return data


def _content_type(data: bytes) -> str:
    """By what the bytes are; the sender is not asked."""
    for magic, name in _PICTURES.items():
        if data.startswith(magic):
            return name
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "application/octet-stream" if "\x00" in text else "text/plain; charset=utf-8"
