"""`/v1/runs/{id}/rerun` and `/v1/runs/{id}/retry-invalid`: a run once more, or what of it has no verdict."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.idempotency import KEY, once
from console.api.problems import Problem
from console.api.views import WorkspaceView
from console.fields import StrictDocument, valid
from console.models import Scope
from runs.actions.caps import CapsRejected
from runs.actions.create import create_run
from runs.actions.retry import CannotRetry, MayNotRetry, retry_invalid
from runs.models import Run
from runs.spec import CapsSerializer, SpecRejected

from .serializers import RunDetailSerializer, RunSerializer
from .views import rejected, run_or_404


class RunRerunView(WorkspaceView):
    scopes = {"POST": Scope.RUNS_WRITE}
    problems: ClassVar = ("409",)

    @extend_schema(
        operation_id="runs_rerun",
        summary="Run the same document again",
        description="A new run of the document as it was accepted; a task set's newest version is meant, as ever.",
        request=None,
        responses={201: RunSerializer},
        parameters=[KEY],
        tags=["runs"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        valid(StrictDocument, request.data)
        return once(request, self.workspace, lambda: self._rerun(run_or_404(self.workspace, id)))

    def _rerun(self, run: Run) -> Response:
        try:
            again = create_run(workspace=self.workspace, document=run.spec, actor=self.actor)
        except SpecRejected as error:
            raise rejected(error) from error
        location = self.request.build_absolute_uri(reverse("api-run", kwargs={"id": again.pk}))
        return Response(
            RunSerializer(run_or_404(self.workspace, again.pk)).data,
            status=status.HTTP_201_CREATED,
            headers={"Location": location},
        )


class RunRetryView(WorkspaceView):
    scopes = {"POST": Scope.RUNS_WRITE}
    problems: ClassVar = ("409",)

    @extend_schema(
        operation_id="runs_retry_invalid",
        summary="Try attempts without a verdict again",
        description=(
            "In the same run, with every earlier try kept. One that has ended goes on, unless it was cancelled; where "
            "its money or time is used up, send higher caps along. For its creator, admins and owners."
        ),
        request=CapsSerializer,
        responses={200: RunDetailSerializer},
        parameters=[KEY],
        tags=["runs"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        return once(request, self.workspace, lambda: self._retry(run_or_404(self.workspace, id)))

    def _retry(self, run: Run) -> Response:
        caps = valid(CapsSerializer, self.request.data)
        try:
            retry_invalid(run, **caps, actor=self.actor)
        except CapsRejected as error:
            raise rejected(error) from error
        except CannotRetry as error:
            raise Problem(status.HTTP_409_CONFLICT, error.code, str(error)) from error
        except MayNotRetry as error:
            raise Problem(status.HTTP_403_FORBIDDEN, "may_not_retry", str(error)) from error
        return Response(RunDetailSerializer(run_or_404(self.workspace, run.pk)).data)
