"""What every view of the API stands on: one workspace, a scope a method, JSON whatever is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any, ClassVar, NoReturn

from django.http import Http404
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.negotiation import BaseContentNegotiation, DefaultContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from console.actor import Actor
from console.models import Scope, Token, User, Workspace

from .parsers import ExactJSONParser
from .schema import ApiSchema


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
    """Whatever else is asked for under /v1: a problem document in place of a page."""

    authentication_classes = []
    permission_classes = []
    content_negotiation_class = AlwaysJSON
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> NoReturn:
        raise Http404


@extend_schema_field({"type": "string", "pattern": r"^\d+\.\d{2,6}$", "example": "0.50"})
class Money(serializers.Field[Decimal, Any, str, Any]):
    """Dollars as a decimal string, two to six places."""

    def to_representation(self, value: Decimal) -> str:
        return dollars(value)


def dollars(amount: Decimal) -> str:
    whole, _, places = f"{amount:.6f}".partition(".")
    return f"{whole}.{places.rstrip('0'):0<2}"
