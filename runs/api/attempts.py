"""`/v1/attempts/{id}`: one attempt, its tries, its steps and what the screen showed."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.blobs import serve
from console.api.problems import FieldProblem, InvalidRequest
from console.api.views import WorkspaceList, WorkspaceView
from console.models import Scope, Workspace
from runs import limits
from runs.models import AttemptTry, Step

from .serializers import AttemptDetailSerializer, StepSerializer
from .views import attempts_for_api

TRY = OpenApiParameter(
    "try",
    {"type": "integer", "minimum": 1, "maximum": limits.MOST_TRIES},
    OpenApiParameter.QUERY,
    description="Number of the try; left out: the last one.",
)


@extend_schema(
    summary="One attempt",
    description="With all its tries, also those that an infrastructure fault ended, and the checker's evidence.",
    responses=AttemptDetailSerializer,
    tags=["attempts"],
)
class AttemptView(WorkspaceView):
    scopes = {"GET": Scope.RUNS_READ}

    def get(self, request: Request, id: UUID) -> Response:
        rows = attempts_for_api().filter(workspace=self.workspace).prefetch_related("try_rows__computer")
        attempt = get_object_or_404(rows, pk=id)
        return Response(AttemptDetailSerializer(attempt, context={"request": request}).data)


@extend_schema(
    summary="Steps of an attempt",
    description="By number, of the last try or the one that `try` names.",
    parameters=[TRY],
    tags=["attempts"],
)
class AttemptStepsView(WorkspaceList):
    scopes = {"GET": Scope.RUNS_READ}
    queryset = Step.objects.none()
    serializer_class = StepSerializer
    filterset_fields: list[str] = []
    page_key = ("number",)

    def get_queryset(self) -> QuerySet[Step]:
        self.attempt_try = _try(self.workspace, self.kwargs["id"], self.request)
        if self.attempt_try is None:
            return Step.objects.none()
        return Step.objects.filter(attempt_try=self.attempt_try)

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "attempt_try": getattr(self, "attempt_try", None)}


class StepScreenshotView(WorkspaceView):
    scopes = {"GET": Scope.RUNS_READ}
    problems = ("422",)

    @extend_schema(
        summary="What the screen showed after a step",
        description="A PNG of 1920×1080 pixels.",
        parameters=[TRY],
        responses={(200, "image/png"): OpenApiTypes.BINARY},
        tags=["attempts"],
    )
    def get(self, request: Request, id: UUID, number: int) -> HttpResponse:
        attempt_try = _try(self.workspace, id, request)
        if attempt_try is None:
            raise NotFound
        step = get_object_or_404(Step, attempt_try=attempt_try, number=number)
        return serve(request, self.workspace, step.screenshot)


def _try(workspace: Workspace, id: UUID, request: Request) -> AttemptTry | None:
    """The try that `?try=` names, else the last; None when the attempt has not been begun."""
    attempt = get_object_or_404(attempts_for_api().filter(workspace=workspace), pk=id)
    tries = AttemptTry.objects.filter(attempt=attempt).order_by("-number")
    number = asked_try(request)
    return tries.first() if number is None else get_object_or_404(tries, number=number)


def asked_try(request: Request) -> int | None:
    """What `?try=` says; None: the last one."""
    named = request.query_params.get("try")
    if named is None:
        return None
    if not (named.isascii() and named.isdecimal() and 1 <= int(named[:9]) <= limits.MOST_TRIES):
        wrong = FieldProblem(
            field="try", code="invalid", message=f"Must be between 1 and {limits.MOST_TRIES}."
        )
        raise InvalidRequest([wrong])
    return int(named)
