"""`/v1/states`: the desktops that workers have saved."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from console.actions.workspaces import NotAllowed
from console.api.filters import AnyOf
from console.api.problems import Problem
from console.api.views import WorkspaceList, WorkspaceView
from console.fields import RangedInteger, StrictDocument, valid
from console.models import Scope, Workspace
from desktops import limits
from desktops.actions.states import NotKept, StateNeeded, keep, let_go, needed
from desktops.models import State

from .serializers import StateDetailSerializer, StateSerializer


class StateFilters(filters.FilterSet):
    worker = filters.CharFilter(field_name="worker__name", help_text="The worker's name.")
    origin = AnyOf(choices=State.Origin.choices)
    status = AnyOf(choices=State.Status.choices)

    class Meta:
        model = State
        fields: list[str] = []


def states_of(workspace: Workspace) -> QuerySet[State]:
    states = State.objects.for_workspace(workspace)
    return states.select_related("worker", "template_version__template", "computer__assignment")


@extend_schema_view(
    get=extend_schema(
        summary="Saved desktops",
        description="Newest first, those too that their worker has no longer.",
        tags=["states"],
    )
)
class StateListView(WorkspaceList):
    scopes = {"GET": Scope.COMPUTERS_READ}
    queryset = State.objects.none()
    serializer_class = StateSerializer
    filterset_class = StateFilters
    page_key = ("-made_at", "id")

    def get_queryset(self) -> QuerySet[State]:
        return states_of(self.workspace)


class KeepSerializer(StrictDocument):
    keep_days = RangedInteger(
        limits.KEEP_DAYS, help_text="It expires so long from now, and so long after each later use."
    )


class StateView(WorkspaceView):
    scopes = {"GET": Scope.COMPUTERS_READ, "PATCH": Scope.COMPUTERS_WRITE, "DELETE": Scope.COMPUTERS_WRITE}
    problems: ClassVar = ("409",)
    http_method_names = ["get", "head", "patch", "delete"]

    @extend_schema(
        summary="One saved desktop",
        description="With what needs it now.",
        responses=StateDetailSerializer,
        tags=["states"],
    )
    def get(self, request: Request, id: UUID) -> Response:
        return self._shown(get_object_or_404(states_of(self.workspace), pk=id))

    @extend_schema(
        operation_id="states_keep",
        summary="Keep a saved desktop longer",
        description=(
            "One that a person has saved. Once it has expired it is deleted as soon as nothing needs it. One of "
            "another origin, one that is deleted, and one that stays longer already are a 409 `not_kept`."
        ),
        request=KeepSerializer,
        responses={200: StateDetailSerializer},
        tags=["states"],
    )
    def patch(self, request: Request, id: UUID) -> Response:
        state = get_object_or_404(states_of(self.workspace), pk=id)
        try:
            keep(state, days=valid(KeepSerializer, request.data)["keep_days"], actor=self.actor)
        except NotKept as error:
            raise Problem(status.HTTP_409_CONFLICT, "not_kept", str(error)) from error
        return self._shown(states_of(self.workspace).get(pk=id))

    @extend_schema(
        operation_id="states_delete",
        summary="Delete a saved desktop",
        description=(
            "For admins and owners. It is `leaving` until its worker has deleted it, then `gone`; its document stays. "
            "Deleting twice is no error. While something needs it, it is a 409 `state_needed` that says what."
        ),
        responses={200: StateDetailSerializer},
        tags=["states"],
    )
    def delete(self, request: Request, id: UUID) -> Response:
        state = get_object_or_404(states_of(self.workspace), pk=id)
        try:
            let_go(state, actor=self.actor)
        except StateNeeded as error:
            raise Problem(status.HTTP_409_CONFLICT, "state_needed", str(error)) from error
        except NotAllowed as error:
            raise Problem(status.HTTP_403_FORBIDDEN, "may_not_delete", str(error)) from error
        return self._shown(states_of(self.workspace).get(pk=id))

    def _shown(self, state: State) -> Response:
        context = {"request": self.request, "needed": needed([state])}
        return Response(StateDetailSerializer(state, context=context).data)
