"""Every error of the API is an RFC 9457 problem document with a stable `code`.

{"type": "about:blank", "title": "Unprocessable Content", "status": 422, "code": "invalid",
 "detail": "…", "errors": [{"field": "rounds", "code": "max_value", "message": "…"}]}
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, TypedDict

from django.core.exceptions import DisallowedHost, PermissionDenied, RequestDataTooBig
from django.core.exceptions import ValidationError as DjangoValidationError
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.template.loader import render_to_string
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import exceptions, serializers, status
from rest_framework.response import Response

from console.doors import API
from console.redaction import redact, redacted

log = logging.getLogger(__name__)
RETRY_SECONDS: Final = 5
CONTENT_TYPE: Final = "application/problem+json"


class FieldProblem(TypedDict):
    field: str
    code: str
    message: str


class FieldProblemSerializer(serializers.Serializer[FieldProblem]):
    field = serializers.CharField(
        help_text="Name of the field, dotted where it lies deeper; empty: the whole."
    )
    code = serializers.CharField(help_text="Stable.")
    message = serializers.CharField(help_text="For people.")


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "A field that cannot be",
            value={
                "type": "about:blank",
                "title": "Unprocessable Entity",
                "status": 422,
                "code": "invalid_document",
                "detail": "Not accepted: rounds.",
                "errors": [{"field": "rounds", "code": "max_value", "message": "Must be between 1 and 50."}],
            },
        )
    ]
)
class ProblemSerializer(serializers.Serializer[dict[str, Any]]):
    type = serializers.CharField(default="about:blank")
    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="Stable; what a client should look at.")
    detail = serializers.CharField(help_text="For people.")
    errors = FieldProblemSerializer(many=True)  # type: ignore[assignment]  # a field of that name, by DRF's rules


class Problem(exceptions.APIException):
    """Raise it anywhere in a view: it becomes the reply."""

    auth_header: str

    def __init__(
        self,
        status_code: int,
        code: str,
        detail: str,
        *,
        errors: Sequence[FieldProblem] = (),
        also: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`also`: members of the document beside those that every problem has."""
        super().__init__(detail, code)
        self.status_code = status_code
        self.code = code
        self.errors = list(errors)
        self.also = dict(also)


class InvalidRequest(Problem):
    """422: a field or parameter has a value that cannot be."""

    def __init__(self, errors: Sequence[FieldProblem], *, code: str = "invalid") -> None:
        fields = ", ".join(dict.fromkeys(error["field"] for error in errors if error["field"]))
        what = f"Not accepted: {fields}." if fields else errors[0]["message"]
        super().__init__(status.HTTP_422_UNPROCESSABLE_ENTITY, code, what, errors=errors)


def exception_handler(error: Exception, context: dict[str, Any]) -> Response:
    """What DRF calls with whatever a view raised. Nothing of an unforeseen error leaves the house but that it was."""
    problem = _as_problem(error)
    if problem is None:
        request = context.get("request")
        log.error("%s failed", getattr(request, "path", "a request"), exc_info=error)
        got_request_exception.send(sender=exception_handler, request=getattr(request, "_request", request))
        problem = Problem(
            status.HTTP_500_INTERNAL_SERVER_ERROR,
            "internal_error",
            "Something broke here, and it is in the console's log. Trying again may help.",
        )
    headers = {}
    if getattr(problem, "auth_header", None):
        headers["WWW-Authenticate"] = problem.auth_header
    if problem.status_code == status.HTTP_503_SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_SECONDS)
    if isinstance(error, exceptions.Throttled) and getattr(error, "wait", None) is not None:
        headers["Retry-After"] = str(error.wait)  # type: ignore[attr-defined]  # the stubs forget it
    return Response(body(problem), status=problem.status_code, headers=headers, content_type=CONTENT_TYPE)


def plain(status_code: int, code: str, detail: str) -> JsonResponse:
    """A problem document from outside of a view, where DRF does not answer."""
    problem = Problem(status_code, code, detail)
    return JsonResponse(body(problem), status=status_code, content_type=CONTENT_TYPE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's answer to what it cannot read: a wrong Host, a broken form, too many fields. A page, but under /v1."""
    code, why = "malformed", "The request cannot be read."
    if isinstance(exception, DisallowedHost):
        code = "unknown_host"
        why = "This console does not answer to that name. Its operator can add one: DJANGO_ALLOWED_HOSTS."
    if request.path.startswith(API):
        return plain(status.HTTP_400_BAD_REQUEST, code, why)
    page = render_to_string("400.html", {"why": why if code == "unknown_host" else ""})
    return HttpResponseBadRequest(page)


def body(problem: Problem) -> dict[str, Any]:
    return {
        "type": "about:blank",
        "title": HTTPStatus(problem.status_code).phrase,
        "status": problem.status_code,
        "code": problem.code,
        "detail": redact(str(problem.detail)),
        "errors": redacted(problem.errors),
        **problem.also,
    }


def _as_problem(error: Exception) -> Problem | None:
    match error:
        case Problem():
            return error
        case exceptions.ValidationError():
            return InvalidRequest(list(_fields(error.get_full_details())))
        case DjangoValidationError():
            messages = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
            return InvalidRequest(
                [
                    FieldProblem(field=field, code="invalid", message=message)
                    for field, texts in messages.items()
                    for message in texts
                ]
            )
        case Http404():
            return Problem(status.HTTP_404_NOT_FOUND, "not_found", "There is no such thing here.")
        case PermissionDenied():
            return Problem(status.HTTP_403_FORBIDDEN, "permission_denied", str(error) or "Not allowed.")
        case RequestDataTooBig():
            return too_large(None)
        case OperationalError() | InterfaceError():
            log.warning("The database did not answer: %s", error)
            return Problem(
                status.HTTP_503_SERVICE_UNAVAILABLE,
                "database_unavailable",
                "The database does not answer just now, and nothing was stored. Try again in a few seconds.",
            )
        case exceptions.APIException():
            return _from_rest_framework(error)
    return None


def too_large(limit: int | None) -> Problem:
    """413; `limit` in bytes."""
    most = f" At most {limit:,} bytes." if limit else ""
    return Problem(status.HTTP_413_REQUEST_ENTITY_TOO_LARGE, "too_large", f"The body is too large.{most}")


def _from_rest_framework(error: exceptions.APIException) -> Problem:
    codes = error.get_codes()
    code = codes if isinstance(codes, str) else "error"
    detail = str(error.detail)
    if isinstance(error, exceptions.NotAuthenticated):
        detail = "Send a token: Authorization: Bearer dy_…"
    elif isinstance(error, exceptions.UnsupportedMediaType):
        detail = "Send the body as JSON, with Content-Type: application/json."
    problem = Problem(error.status_code, "malformed" if code == "parse_error" else code, detail)
    if hasattr(error, "auth_header"):
        problem.auth_header = str(error.auth_header)
    return problem


def _fields(details: Any, path: str = "") -> Iterator[FieldProblem]:
    """DRF's nested error details as flat rows."""
    if isinstance(details, dict) and set(details) == {"message", "code"}:
        yield FieldProblem(field=path, code=str(details["code"]), message=str(details["message"]))
    elif isinstance(details, dict):
        for key, value in details.items():
            name = "" if key == "non_field_errors" else str(key)
            yield from _fields(value, ".".join(part for part in (path, name) if part))
    else:
        for value in details:
            yield from _fields(value, path)
