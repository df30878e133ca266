from django.urls import URLPattern, path, re_path

from console.api.views import NoSuchRoute

from .again import RunRerunView, RunRetryView
from .attempts import AttemptStepsView, AttemptView, StepScreenshotView
from .exports import AttemptsFileView, EventsFileView
from .prefixes import PrefixStepsView, RunPrefixesView
from .provenance import RunProvenanceView, VerifierView
from .tasks import TaskListView, TaskSetListView
from .views import (
    RunAttemptsView,
    RunCancelView,
    RunEventsView,
    RunListView,
    RunView,
)

HINTS = {
    r"/v1/runs/(\d{1,9})(?:/|$)": "Here a run is named by its id, a UUID, and not by its number. "
    "GET /v1/runs?number={} finds it.",
    r"/v1/attempts/\d{1,9}(?:/|$)": "Here an attempt is named by its id, a UUID, and not by its number. "
    "GET /v1/runs/{{id}}/attempts lists those of a run.",
}

urlpatterns: list[URLPattern] = [
    path("runs", RunListView.as_view(), name="api-runs"),
    path("runs/<uuid:id>", RunView.as_view(), name="api-run"),
    path("runs/<uuid:id>/cancel", RunCancelView.as_view(), name="api-run-cancel"),
    path("runs/<uuid:id>/rerun", RunRerunView.as_view(), name="api-run-rerun"),
    path("runs/<uuid:id>/retry-invalid", RunRetryView.as_view(), name="api-run-retry"),
    path("runs/<uuid:id>/attempts", RunAttemptsView.as_view(), name="api-run-attempts"),
    path("runs/<uuid:id>/prefixes", RunPrefixesView.as_view(), name="api-run-prefixes"),
    path("prefixes/<uuid:id>/steps", PrefixStepsView.as_view(), name="api-prefix-steps"),
    path("runs/<uuid:id>/events", RunEventsView.as_view(), name="api-run-events"),
    path("runs/<uuid:id>/attempts.<export:form>", AttemptsFileView.as_view(), name="api-run-attempts-file"),
    path("runs/<uuid:id>/events.jsonl", EventsFileView.as_view(), name="api-run-events-file"),
    path("runs/<uuid:id>/provenance", RunProvenanceView.as_view(), name="api-run-provenance"),
    path("provenance/deskyard-verify.py", VerifierView.as_view(), name="api-verifier"),
    path("attempts/<uuid:id>", AttemptView.as_view(), name="api-attempt"),
    path("attempts/<uuid:id>/steps", AttemptStepsView.as_view(), name="api-attempt-steps"),
    path(
        "attempts/<uuid:id>/steps/<int:number>/screenshot",
        StepScreenshotView.as_view(),
        name="api-step-screenshot",
    ),
    path("task_sets", TaskSetListView.as_view(), name="api-task-sets"),
    path("task_sets/<slug:name>/tasks", TaskListView.as_view(), name="api-tasks"),
    # The last list of the API's addresses: what no one has answered, nobody will.
    re_path(r"", NoSuchRoute.as_view(hints=HINTS)),
]
