"""What every view of the API stands on: one workspace, a scope a method, JSON whatever is asked for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, ClassVar, Final, NoReturn

from django.urls import URLPattern, URLResolver, get_resolver
from django.urls.resolvers import RoutePattern
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers, status
from rest_framework.generics import GenericAPIView
from rest_framework.negotiation import BaseContentNegotiation, DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.actor import Actor
from console.doors import API
from console.models import Scope, Token, User, Workspace

from .parsers import ExactJSONParser
from .problems import Problem
from .schema import ApiSchema

_PARAMETER: Final = re.compile(r"<\w+:(\w+)>")
_ID: Final = re.compile(r"(?<=/)(\d+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=/|$)")


class AlwaysJSON(BaseContentNegotiation):
    """Replies do not depend on Accept: a client that asks for a picture still gets its error as a problem document."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> Any:
        return DefaultContentNegotiation().select_parser(request, parsers)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, str(renderer.media_type)


class WorkspaceView(APIView):
    """A view in one workspace: `self.workspace`, `self.actor`; `scopes` names the scope of each method."""

    scopes: ClassVar[dict[str, Scope]] = {}
    problems: ClassVar[tuple[str, ...]] = ()
    parser_classes = [ExactJSONParser]
    content_negotiation_class = AlwaysJSON
    schema = ApiSchema()
    http_method_names = ["get", "head", "post", "put", "patch"]

    @property
    def workspace(self) -> Workspace:
        workspace: Workspace = self.request.workspace  # type: ignore[attr-defined]
        return workspace

    @property
    def actor(self) -> Actor:
        auth, user = self.request.auth, self.request.user
        if isinstance(auth, Token):
            return Actor.token(auth)
        assert isinstance(user, User)
        return Actor.person(user)


class WorkspaceList(WorkspaceView, GenericAPIView[Any]):
    """A list in pages: `get_queryset` starts from `self.workspace`; `page_key` as `Pages` says."""

    page_key: ClassVar[tuple[str, ...]]

    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class NoSuchRoute(APIView):
    """Whatever else is asked for under /v1: a problem document that says what may have been meant.

    `hints`: what is said of a path, by an expression for it whose groups may stand in braces.
    """

    authentication_classes = []
    permission_classes = []
    content_negotiation_class = AlwaysJSON
    schema = None
    hints: ClassVar[dict[str, str]] = {}

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:
        found = ((re.match(path, request.path), said) for path, said in self.hints.items())
        hint = next((said.format(*match.groups()) for match, said in found if match), None)
        detail = hint or f"There is no such address. {_nearest(request.path)}"
        raise Problem(status.HTTP_404_NOT_FOUND, "not_found", detail)


def _nearest(path: str) -> str:
    known = [
        f"/{prefix.pattern}" + _PARAMETER.sub(r"{\1}", str(address.pattern))
        for prefix in get_resolver().url_patterns
        if isinstance(prefix, URLResolver) and f"/{prefix.pattern}" in API
        for address in prefix.url_patterns
        if isinstance(address, URLPattern) and isinstance(address.pattern, RoutePattern)
    ]
    near = difflib.get_close_matches(_ID.sub("{id}", path[:200]), known, n=1, cutoff=0.7)
    return f"Did you mean {near[0]}?" if near else "/v1/docs/ lists them all."


@extend_schema_field({"type": "string", "pattern": r"^\d+\.\d{2,6}$", "example": "0.50"})
class Money(serializers.Field[Decimal, Any, str, Any]):
    """Dollars as a decimal string, two to six places."""

    def to_representation(self, value: Decimal) -> str:
        return dollars(value)


def dollars(amount: Decimal) -> str:
    whole, _, places = f"{amount:.6f}".partition(".")
    return f"{whole}.{places.rstrip('0'):0<2}"
