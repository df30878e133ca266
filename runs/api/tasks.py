"""`/v1/task_sets`: what can be run."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q, QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema

from console.api.views import WorkspaceList
from console.models import Scope
from runs.models import Task, TaskSet

from .filters import TaskFilters
from .serializers import TaskSerializer, TaskSetSerializer


@extend_schema(summary="Task sets", description="The newest version of each.", tags=["material"])
class TaskSetListView(WorkspaceList):
    scopes = {"GET": Scope.RUNS_READ}
    queryset = TaskSet.objects.none()
    serializer_class = TaskSetSerializer
    filterset_fields: list[str] = []
    page_key = ("name",)

    def get_queryset(self) -> QuerySet[Any]:
        sets: QuerySet[Any] = (
            TaskSet.objects.for_workspace(self.workspace)
            .current()
            .defer("refused")
            .annotate(
                task_count=Count("tasks"), recipe_count=Count("tasks", filter=Q(tasks__recipe__isnull=False))
            )
        )
        return sets


@extend_schema(summary="Tasks of a set", description="In the set's order.", tags=["material"])
class TaskListView(WorkspaceList):
    scopes = {"GET": Scope.RUNS_READ}
    queryset = Task.objects.none()
    serializer_class = TaskSerializer
    filterset_class = TaskFilters
    page_key = ("position", "id")

    def get_queryset(self) -> QuerySet[Any]:
        sets = TaskSet.objects.for_workspace(self.workspace).current()
        task_set = get_object_or_404(sets, name=self.kwargs["name"])
        tasks = Task.objects.filter(task_set=task_set).defer("document", "recipe")
        return tasks.annotate(recipe_known=Q(recipe__isnull=False))
