from django.urls import URLPattern, path

from .computers import (
    ComputerListView,
    ComputerStatesView,
    ComputerTemplateView,
    ComputerView,
    ComputerWatchView,
)
from .states import StateListView, StateView
from .views import TemplateListView, WorkerListView

urlpatterns: list[URLPattern] = [
    path("templates", TemplateListView.as_view(), name="api-templates"),
    path("workers", WorkerListView.as_view(), name="api-workers"),
    path("states", StateListView.as_view(), name="api-states"),
    path("states/<uuid:id>", StateView.as_view(), name="api-state"),
    path("computers", ComputerListView.as_view(), name="api-computers"),
    path("computers/<uuid:id>", ComputerView.as_view(), name="api-computer"),
    path("computers/<uuid:id>/states", ComputerStatesView.as_view(), name="api-computer-states"),
    path("computers/<uuid:id>/view", ComputerWatchView.as_view(), name="api-computer-view"),
    path("computers/<uuid:id>/template", ComputerTemplateView.as_view(), name="api-computer-template"),
]
