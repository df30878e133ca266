"""`/v1/runs`: create, list, read, cancel, and what happened in one."""

from __future__ import annotations

from typing import Any, ClassVar, cast
from uuid import UUID

from django.db.models import Q, QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from console.api.idempotency import KEY, once
from console.api.problems import FieldProblem, InvalidRequest, Problem
from console.api.views import WorkspaceList, WorkspaceView
from console.fields import StrictDocument, valid
from console.models import Scope, Workspace
from runs.actions.caps import CapsRejected, MayNotChange, NotGoing, change_cap
from runs.actions.create import create_run
from runs.actions.stop import MayNotCancel, NotCancellable, cancel_run
from runs.columns import ranges
from runs.models import Attempt, Event, Run
from runs.spec import CapsSerializer, RunSpecSerializer, SpecRejected

from .filters import AttemptFilters, EventFilters, RunFilters
from .serializers import AttemptSerializer, EventSerializer, RunDetailSerializer, RunSerializer


def run_or_404(workspace: Workspace, id: UUID) -> Run:
    """Another workspace's run is as absent as one that never was."""
    runs = Run.objects.for_workspace(workspace).select_related("workspace", "budget")
    run: Run = get_object_or_404(runs, pk=id)
    return run


class RunListView(WorkspaceList):
    scopes = {"GET": Scope.RUNS_READ, "POST": Scope.RUNS_WRITE}
    problems: ClassVar = ("409",)
    queryset = Run.objects.none()
    serializer_class = RunSerializer
    filterset_class = RunFilters
    page_key = ("-number",)

    def get_queryset(self) -> QuerySet[Run]:
        return Run.objects.for_workspace(self.workspace).select_related("workspace", "budget")

    @extend_schema(summary="Runs", description="Newest first.", tags=["runs"])
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().get(request, *args, **kwargs)

    @extend_schema(
        summary="Create a run",
        description="The reply is the run in its queued state. A refused document stores nothing.",
        request=RunSpecSerializer,
        responses={201: RunSerializer},
        parameters=[KEY],
        tags=["runs"],
    )
    def post(self, request: Request) -> Response:
        return once(request, self.workspace, self._create)

    def _create(self) -> Response:
        try:
            run = create_run(
                workspace=self.workspace, document=cast(Any, self.request.data), actor=self.actor
            )
        except SpecRejected as error:
            raise rejected(error) from error
        run.refresh_from_db()
        location = self.request.build_absolute_uri(reverse("api-run", kwargs={"id": run.pk}))
        return Response(
            self.get_serializer(run_or_404(self.workspace, run.pk)).data,
            status=status.HTTP_201_CREATED,
            headers={"Location": location},
        )


def rejected(error: SpecRejected | CapsRejected) -> InvalidRequest:
    fields = [FieldProblem(field=e.field, code=e.code, message=e.message) for e in error.errors]
    return InvalidRequest(fields, code="invalid_document")


class RunView(WorkspaceView):
    scopes = {"GET": Scope.RUNS_READ, "PATCH": Scope.RUNS_WRITE}
    problems: ClassVar = ("409",)

    @extend_schema(
        summary="One run",
        description="Its state, counts, cost and caps now; while it is going, also when it is expected to end.",
        responses=RunDetailSerializer,
        tags=["runs"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        return Response(RunDetailSerializer(run_or_404(self.workspace, id)).data)

    @extend_schema(
        operation_id="runs_change_caps",
        summary="Raise or lower a run's caps",
        description="While it is going. For its creator, admins and owners; `spec` keeps what was asked at first.",
        request=CapsSerializer,
        responses={200: RunDetailSerializer},
        tags=["runs"],
    )
    def patch(self, request: Request, id: UUID) -> Response:
        run = run_or_404(self.workspace, id)
        caps = valid(CapsSerializer, request.data)
        if not caps:
            raise InvalidRequest([FieldProblem(field="", code="required", message="Name a cap to change.")])
        try:
            change_cap(run, **caps, actor=self.actor)
        except CapsRejected as error:
            raise rejected(error) from error
        except NotGoing as error:
            raise Problem(status.HTTP_409_CONFLICT, "run_ended", str(error)) from error
        except MayNotChange as error:
            raise Problem(status.HTTP_403_FORBIDDEN, "may_not_change_caps", str(error)) from error
        return Response(RunDetailSerializer(run_or_404(self.workspace, id)).data)


class RunCancelView(WorkspaceView):
    scopes = {"POST": Scope.RUNS_WRITE}
    problems: ClassVar = ("409",)

    @extend_schema(
        operation_id="runs_cancel",
        summary="Cancel a run",
        description="For its creator, admins and owners. Cancelling twice is no error; one that has ended is a 409.",
        request=None,
        responses={200: RunDetailSerializer},
        parameters=[KEY],
        tags=["runs"],
    )
    def post(self, request: Request, id: UUID) -> Response:
        valid(StrictDocument, request.data)
        return once(request, self.workspace, lambda: self._cancel(run_or_404(self.workspace, id)))

    def _cancel(self, run: Run) -> Response:
        try:
            cancel_run(run, actor=self.actor)
        except NotCancellable as error:
            raise Problem(status.HTTP_409_CONFLICT, "run_ended", str(error)) from error
        except MayNotCancel as error:
            raise Problem(status.HTTP_403_FORBIDDEN, "may_not_cancel", str(error)) from error
        return Response(RunDetailSerializer(run_or_404(self.workspace, run.pk)).data)


@extend_schema(summary="Attempts of a run", description="By number.", tags=["runs"])
class RunAttemptsView(WorkspaceList):
    scopes = {"GET": Scope.RUNS_READ}
    queryset = Attempt.objects.none()
    serializer_class = AttemptSerializer
    filterset_class = AttemptFilters
    page_key = ("number",)

    def get_queryset(self) -> QuerySet[Attempt]:
        run = run_or_404(self.workspace, self.kwargs["id"])
        return attempts_for_api().filter(run=run)

    def ranges(self) -> list[Q]:
        """Of the three columns, when one is asked for; a task has few attempts, which have their own index."""
        asked = self.request.query_params
        statuses, verifier, outcome = asked.getlist("status"), asked.get("verifier"), asked.get("outcome")
        if asked.get("task") or not (statuses or verifier or outcome):
            return []
        return ranges(statuses or Attempt.Status.values, [verifier] if verifier else [], outcome)


def attempts_for_api() -> QuerySet[Attempt]:
    related = Attempt.objects.select_related("task", "computer", "worker")
    return related.defer("task__document", "task__recipe")


@extend_schema(
    summary="Events of a run",
    description="In order of seq, which has no gaps; `after` resumes.",
    tags=["runs"],
)
class RunEventsView(WorkspaceList):
    scopes = {"GET": Scope.RUNS_READ}
    queryset = Event.objects.none()
    serializer_class = EventSerializer
    filterset_class = EventFilters
    page_key = ("seq",)
    most_rows = 1000

    def get_queryset(self) -> QuerySet[Event]:
        return Event.objects.filter(run=run_or_404(self.workspace, self.kwargs["id"]))

    def ranges(self) -> list[Q]:
        """A range a kind; of one attempt there are never many events, and they have an index of their own."""
        asked = self.request.query_params
        kinds = set(asked.getlist("kind"))
        return [Q(kind=kind) for kind in sorted(kinds)] if len(kinds) > 1 and not asked.get("attempt") else []
