"""What the OpenAPI document says beside the views: how to authenticate, and which problems a route may answer."""

from __future__ import annotations

import inspect
from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema

from .problems import CONTENT_TYPE, ProblemSerializer

PROBLEMS = {
    "400": "The request cannot be read, or a token stands where it would be written down.",
    "401": "No token, or one that is not valid.",
    "403": "The token lacks the scope, or the caller may not do this.",
    "404": "There is no such thing in this workspace.",
    "405": "The route has no such method.",
    "409": "The state of the thing does not allow this.",
    "413": "The body is too large.",
    "415": "The body has a media type that is not read here.",
    "422": "A field has a value that cannot be; `errors` names it.",
}


class ApiSchema(AutoSchema):
    """Adds the problem documents a route may answer, those all do and the view's own `problems`, and its scope."""

    def get_operation(self, *arguments: Any, **named: Any) -> dict[str, Any] | None:
        operation: dict[str, Any] | None = super().get_operation(*arguments, **named)
        scope = getattr(self.view, "scopes", {}).get(self.method)
        if operation is not None and scope:
            said = operation.get("description", "")
            operation["description"] = f"{said}\n\nNeeds the scope `{scope}`.".strip()
        return operation

    def get_description(self) -> str:  # type: ignore[override]  # as drf-spectacular has it
        """Of a view that says nothing itself: what its own docstring does, never that of a base."""
        return inspect.cleandoc(vars(type(self.view)).get("__doc__") or "")

    def _get_response_bodies(self, direction: Any = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for code in sorted(self._problem_codes()):
            if code not in bodies:
                described = self._get_response_for_code(  # type: ignore[no-untyped-call]
                    ProblemSerializer, code, [CONTENT_TYPE], direction
                )
                bodies[code] = {**described, "description": PROBLEMS[code]}
        return bodies

    def _is_list_view(self, serializer: Any = None) -> bool:
        return hasattr(self.view, "page_key") and self.method == "GET"

    def _problem_codes(self) -> set[str]:
        codes = set(getattr(self.view, "problems", ()))
        if self.method == "GET" and {"POST", "PUT", "PATCH", "DELETE"} & set(
            getattr(self.view, "scopes", ())
        ):
            codes.discard("409")  # of what changes something at the same address
        if self.view.authentication_classes:
            codes |= {"400", "401", "403"}
        if "{" in self.path:
            codes.add("404")
        if self._is_list_view() or self.method in ("POST", "PATCH"):
            codes.add("422")
        if self.method in ("POST", "PUT", "PATCH"):
            codes |= {"400", "413", "415"}
        return codes


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "console.api.authentication.WorkspaceTokenAuthentication"
    name = "token"
    priority = 1

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "dy_…"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "console.api.authentication.WorkspaceSessionAuthentication"
    name = "session"
    priority = 1

    def get_security_definition(self, auto_schema: AutoSchema) -> dict[str, Any]:
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
