"""`/preview/evaluations`: submit, add, seal, read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import Http404
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.idempotency import KEY, once
from console.api.problems import FieldProblem, InvalidRequest, Problem
from console.api.views import WorkspaceList, WorkspaceView
from console.fields import StrictDocument, valid
from console.models import Scope, Workspace
from evaluations import report
from evaluations.actions.submit import Duplicates, NameTaken, Sealed, add, seal, submit
from evaluations.documents import Batch, Submission
from evaluations.models import Evaluation, Rollout
from evaluations.sandbox import Unusable

from .serializers import (
    EvaluationDetailSerializer,
    EvaluationSerializer,
    ReportSerializer,
    RolloutSerializer,
)


def evaluation_or_404(workspace: Workspace, name: str) -> Evaluation:
    rows = Evaluation.objects.for_workspace(workspace).select_related("mission", "workspace", "budget")
    found: Evaluation = get_object_or_404(rows, name=name)
    return found


def refused(act: Callable[[], Evaluation]) -> Evaluation:
    """Act; what cannot be becomes its problem document."""
    try:
        return act()
    except Unusable as error:
        fields = [FieldProblem(field=e.field, code=e.code, message=e.message) for e in error.refusals]
        raise InvalidRequest(fields, code="invalid_document") from error
    except NameTaken as error:
        raise Problem(
            status.HTTP_409_CONFLICT, "name_taken", "An evaluation of that name exists already."
        ) from error
    except Sealed as error:
        words = "It is sealed: its rollouts are final. Submit a new evaluation for more."
        raise Problem(status.HTTP_409_CONFLICT, "sealed", words) from error
    except Duplicates as error:
        words = f"{error.count} of these come twice or are in the evaluation already; nothing was stored."
        raise Problem(
            status.HTTP_409_CONFLICT, "duplicate_identities", words, also={"identities": error.identities}
        ) from error


class EvaluationListView(WorkspaceList):
    scopes = {"GET": Scope.EVALUATIONS_READ, "POST": Scope.EVALUATIONS_WRITE}
    problems: ClassVar = ("409",)
    queryset = Evaluation.objects.none()
    serializer_class = EvaluationSerializer
    page_key = ("-created_at", "id")

    def get_queryset(self) -> QuerySet[Evaluation]:
        return Evaluation.objects.for_workspace(self.workspace).select_related("mission")

    @extend_schema(summary="Evaluations", description="Newest first.", tags=["evaluations"])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="submit_rollouts",
        summary="Submit rollouts",
        description="A new evaluation: sealed at once, or left open for more. Stored whole or not at all.",
        request=Submission,
        responses={201: EvaluationDetailSerializer},
        parameters=[KEY],
        tags=["evaluations"],
    )
    def post(self, request: Request) -> Response:
        return once(request, self.workspace, self._submit, key=_key(request))

    def _submit(self) -> Response:
        document = valid(Submission, self.request.data)
        name = document.pop("name")
        refused(lambda: submit(workspace=self.workspace, name=name, document=document, actor=self.actor))
        return _shown(self.workspace, name, status.HTTP_201_CREATED)


class EvaluationView(WorkspaceView):
    scopes = {"GET": Scope.EVALUATIONS_READ}

    @extend_schema(
        summary="One evaluation",
        description="Its counts now, and what was submitted and added, batch by batch.",
        responses=EvaluationDetailSerializer,
        tags=["evaluations"],
    )
    def get(self, request: Request, name: str) -> Response:
        return _shown(self.workspace, name)


class EvaluationRolloutsView(WorkspaceList):
    scopes = {"GET": Scope.EVALUATIONS_READ, "POST": Scope.EVALUATIONS_WRITE}
    problems: ClassVar = ("409",)
    queryset = Rollout.objects.none()
    serializer_class = RolloutSerializer
    page_key = ("number",)

    def get_queryset(self) -> QuerySet[Rollout]:
        rows = Rollout.objects.for_workspace(self.workspace).filter(evaluation=self._evaluation())
        return rows.select_related("batch").prefetch_related("verdicts")

    def _evaluation(self) -> Evaluation:
        return evaluation_or_404(self.workspace, self.kwargs["name"])

    @extend_schema(summary="Rollouts of an evaluation", description="By number.", tags=["evaluations"])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        operation_id="add_rollouts",
        summary="Add rollouts to an open evaluation",
        description="It is created, open, if there is none of that name. An identity that it has already is refused "
        "with the whole batch: a 409 with the `identities`.",
        request=Batch,
        responses={201: EvaluationDetailSerializer},
        parameters=[KEY],
        tags=["evaluations"],
    )
    def post(self, request: Request, name: str) -> Response:
        return once(request, self.workspace, lambda: self._add(name), key=_key(request))

    def _add(self, name: str) -> Response:
        document = valid(Batch, self.request.data)
        refused(lambda: add(workspace=self.workspace, name=name, document=document, actor=self.actor))
        return _shown(self.workspace, name, status.HTTP_201_CREATED)


class EvaluationSealView(WorkspaceView):
    scopes = {"POST": Scope.EVALUATIONS_WRITE}

    @extend_schema(
        operation_id="seal_evaluation",
        summary="Seal an evaluation",
        description="Nothing can be added any more; what it has goes on. Sealing twice is no error.",
        request=None,
        responses={200: EvaluationDetailSerializer},
        parameters=[KEY],
        tags=["evaluations"],
    )
    def post(self, request: Request, name: str) -> Response:
        valid(StrictDocument, request.data)
        return once(request, self.workspace, lambda: self._seal(name))

    def _seal(self, name: str) -> Response:
        try:
            seal(workspace=self.workspace, name=name, actor=self.actor)
        except Evaluation.DoesNotExist as error:
            raise Http404 from error
        return _shown(self.workspace, name)


class EvaluationReportView(WorkspaceView):
    scopes = {"GET": Scope.EVALUATIONS_READ}

    @extend_schema(
        summary="Report of an evaluation",
        description="A block for each judge; never one average over judges.",
        parameters=[
            OpenApiParameter("against", str, description="Name of an evaluation to compare it with.")
        ],
        responses=ReportSerializer,
        tags=["evaluations"],
    )
    def get(self, request: Request, name: str) -> Response:
        evaluation = evaluation_or_404(self.workspace, name)
        against = request.query_params.get("against")
        comparisons = []
        if against is not None:
            if "\x00" in against:
                raise Http404
            comparisons = report.compare(evaluation, evaluation_or_404(self.workspace, against))
        said = {
            "evaluation": evaluation.name,
            "status": evaluation.status,
            "judges": report.report(evaluation),
            "against": against,
            "comparisons": comparisons,
        }
        return Response(ReportSerializer(said).data)


def _key(request: Request) -> str | None:
    """The body's own; what is no text is refused with the document."""
    key = request.data.get("idempotency_key") if isinstance(request.data, dict) else None
    return key if isinstance(key, str) else None


def _shown(workspace: Workspace, name: str, code: int = status.HTTP_200_OK) -> Response:
    return Response(EvaluationDetailSerializer(evaluation_or_404(workspace, name)).data, status=code)
