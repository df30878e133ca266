"""JSON as it was written: amounts are read as Decimal, never by way of a float."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NoReturn

from rest_framework import status
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer

from console.redaction import REFUSED, holds_secret

from .problems import Problem, too_large

MAX_BYTES: Final = 1 << 20


class ExactJSONParser(BaseParser):
    """UTF-8 JSON of at most MAX_BYTES; numbers with a point become Decimal; NaN and Infinity are not JSON.

    A key that comes twice is refused: whichever of the two caps were taken, somebody would have meant the other.
    """

    media_type = "application/json"
    renderer_class = JSONRenderer

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise too_large(MAX_BYTES)
        try:
            value = json.loads(
                data.decode(),
                parse_float=Decimal,
                parse_constant=_no_constant,
                object_pairs_hook=_each_once,
            )
        except (ValueError, InvalidOperation) as error:
            raise ParseError(f"The body is not JSON: {error}") from error
        except RecursionError as error:
            raise ParseError("The body is not JSON that can be read: nested too deeply.") from error
        if any(holds_secret(text) for text in _texts(value)):
            raise Problem(status.HTTP_400_BAD_REQUEST, "misplaced_secret", REFUSED)
        return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _texts(part)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise ValueError(f"the key {twice[:100]!a} comes twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
