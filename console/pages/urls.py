from django.urls import URLPattern, URLResolver, include, path

from . import blobs, workspace

urlpatterns: list[URLPattern | URLResolver] = [
    path("blobs/<str:sha256>", blobs.blob, name="blob"),
    path("settings/", workspace.settings_page, name="settings"),
    path("", include("console.pages.token_urls")),
    path("", include("console.pages.member_urls")),
    path("", include("console.pages.webhook_urls")),
    path("", include("console.pages.audit")),
]
