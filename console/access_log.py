"""Daphne's own log of requests. It is written past the loggers, so it is made safe where it is written."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from daphne.access import AccessLogGenerator  # type: ignore[import-untyped]

from console.redaction import redact

_write_entry = AccessLogGenerator.write_entry


def make_safe() -> None:
    """From now on no line holds a secret, and none is two: addresses may have both in them."""
    AccessLogGenerator.write_entry = _write_safely


def _write_safely(self: AccessLogGenerator, *, request: str, **told: Any) -> None:
    plain = unquote(request)
    seen = redact(plain)
    if seen == plain:  # nothing in it, so it can stand as it was sent
        seen = redact(request)
    seen = "".join(character if character.isprintable() else "\ufffd" for character in seen)
    _write_entry(self, request=seen, **told)
