"""The exact request, as JSON and as a command."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, NamedTuple

from django.conf import settings
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

_TOKENS = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:)?')


class Sample(NamedTuple):
    slug: str
    title: str
    code: SafeString
    text: str


def samples(document: dict[str, Any]) -> list[Sample]:
    body = as_json(document)
    url = f"{settings.PUBLIC_URL}/v1/runs"
    curl = "\n".join(
        [
            f"curl --fail-with-body {shlex.quote(url)} \\",
            '  -H "Authorization: Bearer $DESKYARD_TOKEN" \\',
            '  -H "Content-Type: application/json" \\',
            f"  --data-binary {shlex.quote(body)}",
        ]
    )
    return [
        Sample("json", "JSON", coloured(body), body),
        Sample("curl", "curl", SafeString(conditional_escape(curl)), curl),
    ]


def as_json(document: dict[str, Any]) -> str:
    """One key a line, a list of ids filled to the width of a page."""
    lines = []
    for name, value in document.items():
        if isinstance(value, list) and value:
            lines.append(f"  {json.dumps(name)}: [\n{_filled(value)}\n  ]")
        else:
            lines.append(f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}"


def _filled(values: list[Any], width: int = 84) -> str:
    lines, line = [], ""
    for index, value in enumerate(values):
        item = json.dumps(value, ensure_ascii=False) + ("," if index < len(values) - 1 else "")
        if line and len(line) + len(item) + 1 > width:
            lines.append(line)
            line = ""
        line = f"{line} {item}" if line else "    " + item
    return "\n".join([*lines, line])


def coloured(body: str) -> SafeString:
    """JSON with its keys and strings in spans; everything that is not a tag of ours is escaped."""
    parts: list[str] = []
    at = 0
    for match in _TOKENS.finditer(body):
        parts.append(conditional_escape(body[at : match.start()]))
        kind = "k" if match[2] else "v"
        parts.append(format_html('<span class="{}">{}</span>{}', kind, match[1], match[2] or ""))
        at = match.end()
    parts.append(conditional_escape(body[at:]))
    return mark_safe("".join(parts))  # noqa: S308 - each part is escaped above
