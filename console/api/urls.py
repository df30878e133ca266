from django.urls import URLPattern, path, register_converter

from .blobs import BlobView, WorkerBlobView
from .budget import BudgetView
from .docs import DocsView, SchemaView
from .keys import KeysView


class Sha256Converter:
    regex = "[0-9a-f]{64}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(Sha256Converter, "sha256")

urlpatterns: list[URLPattern] = [
    path("schema", SchemaView.as_view(), name="schema"),
    path("docs/", DocsView.as_view(), name="api-docs"),
    path("keys", KeysView.as_view(), name="api-keys"),
    path("budget", BudgetView.as_view(), name="api-budget"),
    path("blobs/<sha256:sha256>", BlobView.as_view(), name="api-blob"),
    path("worker/blobs/<sha256:sha256>", WorkerBlobView.as_view(), name="api-worker-blob"),
]
