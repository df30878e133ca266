"""`/v1/runs/{id}/attempts.csv`, `.jsonl`, `.parquet` and `/v1/runs/{id}/events.jsonl`: whole lists as files."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request

from console.api.views import WorkspaceView
from console.models import Scope
from runs.exports import FORMATS, Format, attempts_file, events_file
from runs.models import Attempt, Event

from .filters import AttemptFilters, EventFilters
from .serializers import AttemptSerializer, EventSerializer
from .views import run_or_404

FORMAT = OpenApiParameter(
    "form", str, OpenApiParameter.PATH, enum=list(FORMATS), description="How the file is written."
)


class AttemptsFileView(WorkspaceView, GenericAPIView[Attempt]):
    scopes = {"GET": Scope.RUNS_READ}
    problems = ("422",)
    queryset = Attempt.objects.none()
    serializer_class = AttemptSerializer
    filterset_class = AttemptFilters
    pagination_class = None

    @extend_schema(
        operation_id="runs_attempts_file",
        summary="All attempts of a run as a file",
        description="The columns are the fields of the list of attempts, in its order, whatever the format; by number, "
        "with the same filters. In CSV a missing value is empty, reasons are parted by a blank, and a text that a "
        "spreadsheet would take for a formula has an apostrophe before it.",
        parameters=[FORMAT],
        responses={(200, kind.partition(";")[0]): OpenApiTypes.BINARY for kind in FORMATS.values()},
        tags=["runs"],
    )
    def get(self, request: Request, id: UUID, form: Format) -> HttpResponseBase:
        run = run_or_404(self.workspace, id)
        return attempts_file(run, self.filter_queryset(Attempt.objects.filter(run=run)), form)


class EventsFileView(WorkspaceView, GenericAPIView[Event]):
    scopes = {"GET": Scope.RUNS_READ}
    problems = ("422",)
    queryset = Event.objects.none()
    serializer_class = EventSerializer
    filterset_class = EventFilters
    pagination_class = None

    @extend_schema(
        operation_id="runs_events_file",
        summary="All events of a run as JSON lines",
        description="In order of seq. Unfiltered, once the run has ended, the file's SHA-256 is the digest of the "
        "events in the run's signed manifest.",
        responses={(200, "application/x-ndjson"): OpenApiTypes.BINARY},
        tags=["runs"],
    )
    def get(self, request: Request, id: UUID, **kwargs: Any) -> HttpResponseBase:
        run = run_or_404(self.workspace, id)
        return events_file(run, self.filter_queryset(Event.objects.filter(run=run)))
