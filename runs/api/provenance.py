"""`/v1/runs/{id}/provenance` and the program that verifies what it gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Final
from uuid import UUID

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.views import APIView

from console.api.problems import Problem
from console.api.schema import ApiSchema
from console.api.views import AlwaysJSON, WorkspaceView
from console.models import Scope
from runs import provenance
from runs.models import Run

from .serializers import EnvelopeSerializer

VERIFIER: Final = Path(provenance.__file__).with_name("verify.py")


class RunProvenanceView(WorkspaceView):
    scopes = {"GET": Scope.RUNS_READ}
    problems: ClassVar = ("409",)

    @extend_schema(
        summary="Signed manifest of a run",
        description="An in-toto statement in a DSSE envelope; verify it with a key of /v1/keys and the program at "
        "/v1/provenance/deskyard-verify.py. Of more than 10,000 attempts it is a file of JSON lines, a row each, whose "
        "last line is the envelope; such a run has to have ended, else a 409.",
        responses={
            (200, "application/json"): EnvelopeSerializer,
            (200, "application/x-ndjson"): OpenApiTypes.STR,
        },
        tags=["provenance"],
    )
    def get(self, request: Request, id: UUID) -> HttpResponseBase:
        rows = Run.objects.for_workspace(self.workspace).select_related(
            "workspace", "budget", "task_set", "template_version__template"
        )
        run = get_object_or_404(rows, pk=id)
        try:
            return provenance.as_file(run)
        except provenance.NotEnded as error:
            raise Problem(status.HTTP_409_CONFLICT, "run_not_ended", str(error)) from error


class VerifierView(APIView):
    """Open to everybody, as the keys are."""

    authentication_classes = []
    permission_classes = []
    content_negotiation_class = AlwaysJSON
    schema = ApiSchema()
    http_method_names = ["get", "head"]

    @extend_schema(
        operation_id="provenance_verifier",
        summary="The program that verifies a manifest offline",
        description="Python with the package `cryptography`, nothing else: `python deskyard-verify.py manifest.json "
        "--keys keys.json` checks the signature and computes every figure of the run's page again.",
        responses={(200, "text/x-python"): OpenApiTypes.STR},
        tags=["provenance"],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        headers = {"Content-Disposition": 'attachment; filename="deskyard-verify.py"'}
        return HttpResponse(
            VERIFIER.read_bytes(), content_type="text/x-python; charset=utf-8", headers=headers
        )
