"""Pages by key: `{"results": […], "next": url or null}`. The thousandth page costs what the first does."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Any, Final

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import models
from django.db.models import QuerySet
from django.utils.timezone import is_naive
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from console.keyset import beyond, first_rows

from .problems import FieldProblem, InvalidRequest

DEFAULT: Final = 50
MOST: Final = 200


class Pages(BasePagination):
    """Walks a query set along the view's `page_key`: names of fields, unique together, "-" for falling.

    `?limit=` rows a page (1 to MOST; more gives MOST), `?cursor=` where to go on, from `next`. Rows that appear or
    go meanwhile never shift a page. A view whose filters have no order of their own has `ranges`: console.keyset.
    """

    def paginate_queryset(  # type: ignore[override]  # lists of rows are not paged here
        self, queryset: QuerySet[Any], request: Request, view: Any = None
    ) -> list[Any]:
        self.request = request
        self.key: tuple[str, ...] = view.page_key
        self.limit = _limit(request.query_params.get("limit"), getattr(view, "most_rows", MOST))
        cursor = request.query_params.get("cursor")
        if cursor is not None:
            queryset = queryset.filter(beyond(self.key, _read(cursor, self.key, queryset.model)))
        ranges = view.ranges() if hasattr(view, "ranges") else ()
        rows = first_rows(queryset, self.key, self.limit + 1, ranges)
        self.more = len(rows) > self.limit
        self.rows = rows[: self.limit]
        return self.rows

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self._next()})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {
                "results": schema,
                "next": {"type": "string", "nullable": True, "format": "uri"},
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [
            {
                "name": "limit",
                "in": "query",
                "required": False,
                "description": "Rows a page.",
                "schema": {"type": "integer", "minimum": 1, "default": DEFAULT},
            },
            {
                "name": "cursor",
                "in": "query",
                "required": False,
                "description": "Where to go on: from `next` of the page before.",
                "schema": {"type": "string"},
            },
        ]

    def _next(self) -> str | None:
        if not self.more:
            return None
        last = self.rows[-1]
        values = [_value(last, name.lstrip("-")) for name in self.key]
        cursor = base64.urlsafe_b64encode(json.dumps(values, default=str).encode()).decode().rstrip("=")
        return str(replace_query_param(self.request.build_absolute_uri(), "cursor", cursor))


def _limit(asked: str | None, most: int) -> int:
    if asked is None:
        return DEFAULT
    if not (asked.isascii() and asked.isdecimal() and len(asked) < 10) or int(asked) < 1:
        raise InvalidRequest(
            [FieldProblem(field="limit", code="invalid", message="Must be a whole number from 1 on.")]
        )
    return min(int(asked), most)


def _value(row: Any, path: str) -> Any:
    for name in path.split("__"):
        row = getattr(row, name)
    return row


def _read(cursor: str, key: tuple[str, ...], model: type[models.Model]) -> list[Any]:
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        if not isinstance(values, list) or len(values) != len(key):
            raise ValueError("not as many values as the key has")
        return [
            _of_type(_field(model, name.lstrip("-")), value) for name, value in zip(key, values, strict=True)
        ]
    except (
        ValueError,
        TypeError,
        RecursionError,
        binascii.Error,
        ValidationError,
        FieldDoesNotExist,
    ) as error:
        wrong = FieldProblem(field="cursor", code="invalid", message="Not a cursor of this list.")
        raise InvalidRequest([wrong]) from error


def _of_type(field: models.Field[Any, Any], value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str) or "\x00" in str(value):
        raise ValueError("not a key")
    value = field.to_python(value)
    field.run_validators(value)
    if isinstance(value, str):
        value.encode()
    if isinstance(value, datetime) and is_naive(value):
        raise ValueError("not a moment")
    return value


def _field(model: type[models.Model], path: str) -> models.Field[Any, Any]:
    *relations, name = path.split("__")
    for relation in relations:
        related = model._meta.get_field(relation).related_model
        if not isinstance(related, type):
            raise FieldDoesNotExist(path)
        model = related
    field = model._meta.get_field(name)
    if not isinstance(field, models.Field):
        raise FieldDoesNotExist(path)
    return field
