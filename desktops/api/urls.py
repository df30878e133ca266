from django.urls import URLPattern, path

from .states import StateListView, StateView
from .views import TemplateListView, WorkerListView

urlpatterns: list[URLPattern] = [
    path("templates", TemplateListView.as_view(), name="api-templates"),
    path("workers", WorkerListView.as_view(), name="api-workers"),
    path("states", StateListView.as_view(), name="api-states"),
    path("states/<uuid:id>", StateView.as_view(), name="api-state"),
]
