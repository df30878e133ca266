from django.urls import URLPattern, path, re_path

from console.api.views import NoSuchRoute

from .views import (
    EvaluationListView,
    EvaluationReportView,
    EvaluationRolloutsView,
    EvaluationSealView,
    EvaluationView,
)

urlpatterns: list[URLPattern] = [
    path("evaluations", EvaluationListView.as_view(), name="api-evaluations"),
    path("evaluations/<slug:name>", EvaluationView.as_view(), name="api-evaluation"),
    path(
        "evaluations/<slug:name>/rollouts", EvaluationRolloutsView.as_view(), name="api-evaluation-rollouts"
    ),
    path("evaluations/<slug:name>/seal", EvaluationSealView.as_view(), name="api-evaluation-seal"),
    path("evaluations/<slug:name>/report", EvaluationReportView.as_view(), name="api-evaluation-report"),
    re_path(r"", NoSuchRoute.as_view()),
]
