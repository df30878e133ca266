"""Secrets that must not be written down: how they look, which ones are live here, and a mark in their place.

Three doors use this. Every line of the log passes `RedactingFormatter`. What workers report is redacted before it is
stored. What people and programs send with a token of ours in the wrong place is refused by `refuse_misplaced_secrets`,
so that they learn of it, and the token can be replaced.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from console.doors import API

MARK: Final = "[redacted]"
SHORTEST: Final = 12  # a known secret of fewer characters may be an ordinary word, and would redact it
# Names of environment variables whose values are secrets.
SECRET_NAMES: Final = re.compile(
    r"(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|PRIVATE_?KEY|SIGNING_KEY)(?!.*_(FILE|PATH|DIR)$)"
)
# What cannot be taken for anything but a secret, wherever it stands. A group, if any, is what goes.
SHAPES: Final = (
    r"dy_[0-9a-f]{16,}",  # our tokens, also cut short
    r"\bwhsec_[0-9A-Za-z_+/=-]{16,}",  # secrets of webhooks
    r"(?i:\b(?:bearer|basic)\s+)(?=[0-9A-Za-z._~+/=-]*[0-9])[0-9A-Za-z._~+/=-]{16,}",
    r"(?<=://)[^\s/:@]*:[^\s/@]+(?=@)",  # user:password of an address
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"(?<=/invitations/)[0-9A-Za-z_-]{20,}",  # links that let somebody in
    r"(?<=/ws/live/)[0-9A-Za-z_-]{20,}",  # tickets of live views
    r"(?<=/ws/watch/)[0-9A-Za-z_-]{20,}",
    r"(?<=/password/reset/key/)[0-9A-Za-z]+-[0-9A-Za-z-]{16,}",
    r"\bsk-(?:[a-z]+-)?[0-9A-Za-z_-]{20,}",  # keys of model providers
    r"\b(?:ghp|gho|ghs|github_pat)_[0-9A-Za-z_]{20,}",
    r"\bAKIA[0-9A-Z]{16}\b",
)
# In a log, what is named as a secret is one too, up to what ends a value; a password may have spaces.
NAMED: Final = re.compile(
    r"(?i)\b((?:sessionid|csrftoken|csrfmiddlewaretoken|password|passwd|secret|authorization|set-cookie|cookie)"
    r"[\"']?\s*[=:]\s*[\"']?)(?!\[redacted)[^\n\"',;&]{4,}"
)
TOKEN: Final = re.compile(r"dy_[0-9a-f]{64}")


def redact(text: str) -> str:
    """With MARK in place of what looks like a secret or is one of this console's."""
    return _pattern(live_secrets()).sub(MARK, text)


def redacted(value: Any) -> Any:
    """The same for every text in a JSON value, names of fields included."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redacted(part) for part in value]
    if isinstance(value, dict):
        return {redact(name): redacted(part) for name, part in value.items()}
    return value


def holds_secret(text: str) -> bool:
    """Whether a whole token of ours, or a secret that this console runs with, stands in it."""
    return bool(TOKEN.search(text)) or any(secret in text for secret in live_secrets())


def live_secrets() -> tuple[str, ...]:
    """Values that this process was given in confidence, longest first."""
    return _live(
        settings.SECRET_KEY,
        settings.DESKYARD_SIGNING_KEY,
        settings.EMAIL_HOST_PASSWORD,
        str(settings.DATABASES["default"].get("PASSWORD") or ""),
        *settings.DESKYARD_SECRET_KEYS,
    )


@cache
def _live(*configured: str) -> tuple[str, ...]:
    found = {*configured}
    for name, value in os.environ.items():
        if SECRET_NAMES.search(name.upper()):
            found |= {value, *value.split(",")}
        elif name.upper().endswith("_URL"):
            found.add(_password_of(value))
    return tuple(sorted((one for one in found if len(one) >= SHORTEST), key=len, reverse=True))


def _password_of(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""


@cache
def _pattern(secrets: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join([*map(re.escape, secrets), *SHAPES]))


class RedactingFormatter(logging.Formatter):
    """The last thing that happens to a line, so that arguments, tracebacks and stacks are covered alike."""

    def format(self, record: logging.LogRecord) -> str:
        line = redact(super().format(record))
        return NAMED.sub(lambda found: f"{found[1]}{MARK}", line)


def refuse_misplaced_secrets(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: a token belongs in the Authorization header and nowhere else.

    Addresses end up in histories and logs, fields in tables and on pages. Bodies of the API are looked at where they
    are read (console.api.parsers).
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if any(holds_secret(text) for text in _said(request)):
            return _refusal(request)
        return get_response(request)

    return middleware


REFUSED: Final = (
    "A secret of this console stands where it would be written down. Send a token in the Authorization header only; "
    "revoke this one if others may have seen it."
)


def _said(request: HttpRequest) -> Iterable[str]:
    yield request.get_full_path()
    yield unquote(request.get_full_path())
    yield request.headers.get("Idempotency-Key", "")
    if request.method == "POST" and not request.path.startswith(API):
        for values in request.POST.lists():
            yield from (values[0], *values[1])


def _refusal(request: HttpRequest) -> HttpResponse:
    if request.path.startswith(API):
        from console.api.problems import plain

        return plain(400, "misplaced_secret", REFUSED)
    request.path = request.path_info = "/"  # the page's own forms say where they are to lead back to
    request.META["QUERY_STRING"] = ""
    return render(request, "400.html", {"why": REFUSED}, status=400)
