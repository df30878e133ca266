"""Where the present request comes from, for the audit log. Outside of a request it is nowhere."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple

from allauth.account.adapter import get_adapter
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from console.doors import API

_request: ContextVar[HttpRequest | None] = ContextVar("request", default=None)
_DOORS = ((API, "API"), ("/admin/", "admin"))


class Source(NamedTuple):
    via: str
    ip: str | None


def present_source() -> Source:
    """The door that the request came by (empty for a command), and its client's address where that is known."""
    request = _request.get()
    if request is None:
        return Source("", None)
    via = next((door for prefix, door in _DOORS if request.path.startswith(prefix)), "page")
    try:
        return Source(via, get_adapter(request).get_client_ip(request))
    except PermissionDenied:  # behind a socket without addresses there is none
        return Source(via, None)


def remember_source(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    def middleware(request: HttpRequest) -> HttpResponseBase:
        before = _request.set(request)
        try:
            return get_response(request)
        finally:
            _request.reset(before)

    return middleware
