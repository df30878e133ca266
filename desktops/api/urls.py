from django.urls import URLPattern, path

from .views import TemplateListView, WorkerListView

urlpatterns: list[URLPattern] = [
    path("templates", TemplateListView.as_view(), name="api-templates"),
    path("workers", WorkerListView.as_view(), name="api-workers"),
]
