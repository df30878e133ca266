"""`/v1/schema` and the page that lets people browse and try it, served whole from here."""

from __future__ import annotations

from csp.decorators import csp_update
from django.utils.decorators import method_decorator
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView


class SchemaView(SpectacularAPIView):
    """OpenAPI 3, as YAML or, for who accepts it, as JSON."""


# Swagger UI sets styles from its script; its scripts stay files of ours.
@method_decorator(csp_update({"style-src": ["'unsafe-inline'"]}), name="dispatch")
class DocsView(SpectacularSwaggerSplitView):
    url_name = "schema"
    http_method_names = ["get", "head"]  # the page has nothing to say to OPTIONS
