from django.urls import URLPattern, path

from .wizard import views

urlpatterns: list[URLPattern] = [
    path("runs/new/", views.new_run, name="run-new"),
    path("runs/new/discard/", views.discard, name="run-new-discard"),
    path("runs/new/<slug:step>/preview/", views.preview, name="run-new-preview"),
    path("runs/new/<slug:step>/", views.step, name="run-new-step"),
    path("runs/<int:number>/rerun/", views.rerun, name="run-rerun"),
]
