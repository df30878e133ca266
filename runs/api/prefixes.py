"""`/v1/runs/{id}/prefixes`: what the attempts of a forking run start from, and the steps that led there."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request

from console.api.views import Money, WorkspaceList
from console.models import Scope, Workspace
from runs.models import Prefix, PrefixTry, Step

from .attempts import TRY, asked_try
from .serializers import NullWhenEmpty, StepSerializer
from .views import run_or_404


class PrefixSerializer(serializers.ModelSerializer[Prefix]):
    run = serializers.UUIDField(source="run_id")
    number = serializers.IntegerField(help_text="Of its group of attempts, in the order of play.")
    task = serializers.CharField(source="task.task_id")
    status = serializers.ChoiceField(
        choices=Prefix.Status.choices,
        read_only=True,
        help_text="saved: forks start from it; done: all its forks have ended, what was saved is deleted;"
        " error: it could not be saved, and each of its attempts plays it again.",
    )
    state = serializers.CharField(
        source="state.name", default=None, allow_null=True, help_text="Name of what was saved, on its worker."
    )
    state_digest = NullWhenEmpty()
    screenshot = serializers.SerializerMethodField(help_text="What its forks part from: a PNG.")
    computer = serializers.CharField(source="computer.label", default=None, allow_null=True)
    computer_id = serializers.UUIDField(allow_null=True)
    worker = serializers.CharField(source="worker.name", default=None, allow_null=True)
    cost_usd = Money(source="cost", help_text="Of its desktops that are gone, all tries together.")

    class Meta:
        model = Prefix
        fields = [
            "id",
            "run",
            "number",
            "task",
            "round",
            "copy",
            "status",
            "steps",
            "tries",
            "invalid_reasons",
            "state",
            "state_digest",
            "screenshot",
            "computer",
            "computer_id",
            "worker",
            "cost_usd",
            "started_at",
            "ended_at",
        ]
        read_only_fields = fields

    @extend_schema_field({"type": "string", "format": "uri", "nullable": True})
    def get_screenshot(self, prefix: Prefix) -> str | None:
        if not prefix.screenshot:
            return None
        path = reverse("api-blob", kwargs={"sha256": prefix.screenshot})
        return str(self.context["request"].build_absolute_uri(path))


class PrefixStepSerializer(StepSerializer):
    @extend_schema_field({"type": "string", "format": "uri"})
    def get_screenshot(self, step: Step) -> str:
        path = reverse("api-blob", kwargs={"sha256": step.screenshot})
        return str(self.context["request"].build_absolute_uri(path))


@extend_schema(
    summary="Prefixes of a run",
    description="By number: one for each task, copy and round whose first steps were played once and saved."
    " None where no worker could save a desktop.",
    tags=["runs"],
)
class RunPrefixesView(WorkspaceList):
    scopes = {"GET": Scope.RUNS_READ}
    queryset = Prefix.objects.none()
    serializer_class = PrefixSerializer
    filterset_fields: list[str] = []
    page_key = ("number",)

    def get_queryset(self) -> QuerySet[Prefix]:
        rows = Prefix.objects.filter(run=run_or_404(self.workspace, self.kwargs["id"])).with_cost()
        related = rows.select_related("task", "state", "computer", "worker")
        return related.defer("task__document", "task__recipe")


@extend_schema(
    summary="Steps of a prefix",
    description="By number, of the last try or the one that `try` names. Its forks go on after them.",
    parameters=[TRY],
    tags=["runs"],
)
class PrefixStepsView(WorkspaceList):
    scopes = {"GET": Scope.RUNS_READ}
    queryset = Step.objects.none()
    serializer_class = PrefixStepSerializer
    filterset_fields: list[str] = []
    page_key = ("number",)

    def get_queryset(self) -> QuerySet[Step]:
        one = _try(self.workspace, self.kwargs["id"], self.request)
        return Step.objects.filter(prefix_try=one) if one else Step.objects.none()


def _try(workspace: Workspace, id: UUID, request: Request) -> PrefixTry | None:
    prefix = get_object_or_404(Prefix.objects.for_workspace(workspace), pk=id)
    tries = PrefixTry.objects.filter(prefix=prefix).order_by("-number")
    number = asked_try(request)
    return tries.first() if number is None else get_object_or_404(tries, number=number)
