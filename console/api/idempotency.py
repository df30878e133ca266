"""`Idempotency-Key`: the same request twice does one thing and gets one reply."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from django.db import transaction
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from console.models import IdempotentReply, Workspace

from .problems import FieldProblem, InvalidRequest, Problem

KEY: Final = OpenApiParameter(
    "Idempotency-Key",
    str,
    OpenApiParameter.HEADER,
    description="The same key with the same request does one thing and gets one reply; kept a day.",
)
KEPT_FOR: Final = timedelta(hours=24)
LONGEST: Final = 255


def once(
    request: Request, workspace: Workspace, act: Callable[[], Response], *, key: str | None = None
) -> Response:
    """Act, or replay the reply of the request that acted under this key.

    1. Without a key: act.
    2. In one transaction: claim the key's row (a second request waits here for the first to commit), act, store.
    3. A refused request rolls back and keeps nothing: it may be mended and sent under the same key.
    A key that comes with another body is a 409. Keys are per person and workspace and kept a day. `key`: one that
    the body names; the header's goes before it.
    """
    key = request.headers.get("Idempotency-Key", key)
    if key is None:
        return act()
    if not 1 <= len(key) <= LONGEST or not key.isprintable():
        wrong = f"Must be 1 to {LONGEST} printable characters."
        raise InvalidRequest([FieldProblem(field="Idempotency-Key", code="invalid", message=wrong)])
    rows = IdempotentReply.objects.for_workspace(workspace).filter(user=request.user)
    with transaction.atomic():
        rows.filter(created_at__lt=timezone.now() - KEPT_FOR).delete()
        row, claimed = rows.get_or_create(
            key=key,
            defaults={"workspace": workspace, "user": request.user, "request_digest": _digest(request)},
        )
        if not claimed:
            return _replay(row, request)
        reply = act()
        row.status, row.body = reply.status_code, json.loads(json.dumps(reply.data))
        row.location = reply.get("Location", "")
        row.save(update_fields=["status", "body", "location"])
    return reply


def _replay(row: IdempotentReply, request: Request) -> Response:
    if row.request_digest != _digest(request):
        raise Problem(
            status.HTTP_409_CONFLICT,
            "idempotency_key_reused",
            "This Idempotency-Key came with another request before. Use a new key for a new request.",
        )
    headers = {"Idempotency-Replayed": "true"} | ({"Location": row.location} if row.location else {})
    return Response(row.body, status=row.status, headers=headers)


def _digest(request: Request) -> str:
    """Of method, path and what the body says, not how it is spaced."""
    said: list[Any] = [request.method, request.path, request.data]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()
