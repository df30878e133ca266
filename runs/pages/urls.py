from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("runs.pages.wizard_urls")),
    path("", include("runs.pages.taskset_urls")),
]
