"""`/v1/templates` and `/v1/workers`."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q, QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema

from console.api.filters import OneOf
from console.api.views import WorkspaceList
from console.models import Scope
from desktops.models import TemplateVersion, Worker

from .serializers import TemplateVersionSerializer, WorkerSerializer


class TemplateFilters(filters.FilterSet):
    name = filters.CharFilter(field_name="template__name")
    status = OneOf(choices=TemplateVersion.Status.choices)

    class Meta:
        model = TemplateVersion
        fields: list[str] = []


@extend_schema(summary="Templates", description="Every version of every template.", tags=["material"])
class TemplateListView(WorkspaceList):
    scopes = {"GET": Scope.RUNS_READ}
    queryset = TemplateVersion.objects.none()
    serializer_class = TemplateVersionSerializer
    filterset_class = TemplateFilters
    page_key = ("template__name", "-version")

    def get_queryset(self) -> QuerySet[TemplateVersion]:
        return TemplateVersion.objects.filter(template__workspace=self.workspace).select_related("template")


@extend_schema(summary="Workers", description="Worker hosts and what they can do.", tags=["workers"])
class WorkerListView(WorkspaceList):
    scopes = {"GET": Scope.RUNS_READ}
    queryset = Worker.objects.none()
    serializer_class = WorkerSerializer
    filterset_fields: list[str] = []
    page_key = ("name",)

    def get_queryset(self) -> QuerySet[Any]:
        held = Count("computers", filter=Q(computers__stopped_at=None))
        workers: QuerySet[Any] = Worker.objects.for_workspace(self.workspace).listed().annotate(held=held)
        return workers
