"""Addresses. Pages live under /w/<workspace>/, the API under /v1, the apps are named by string."""

from django.contrib import admin
from django.urls import include, path

handler400 = "console.api.problems.bad_request"

urlpatterns = [
    path("admin/", admin.site.urls),
    path("accounts/", include("console.pages.account")),
    path("v1/", include("console.api.urls")),
    path("v1/", include("desktops.api.urls")),
    path("v1/", include("runs.api.urls")),
    path("preview/", include("evaluations.api.urls")),
    path("w/<slug:workspace>/", include("console.pages.urls")),
    path("w/<slug:workspace>/", include("desktops.pages.urls")),
    path("w/<slug:workspace>/", include("runs.pages.urls")),
    path("", include("console.pages.doors")),
]
