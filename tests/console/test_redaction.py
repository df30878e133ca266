"""What must not be written down is not: in the log, in replies, in what is stored."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest
from daphne.access import AccessLogGenerator
from django.conf import settings as conf
from django.test import Client
from rest_framework.test import APIClient

from console.models import User, Workspace
from console.redaction import MARK, RedactingFormatter, holds_secret, redact, redacted
from tests.factories import document

TOKEN = "dy_" + "0123456789abcdef" * 4

SECRETS = [
    TOKEN,
    TOKEN[:30],
    "whsec_c2VjcmV0c2VjcmV0c2VjcmV0",
    "Bearer abcdef0123456789abcdef",
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----",
    "sk-proj-0123456789abcdefghijKLMN",
    "ghp_0123456789abcdefghijABCDEFGHIJ",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_what_looks_like_a_secret_goes(secret: str) -> None:
    assert secret not in redact(f"before {secret} after")
    assert redact(f"before {secret} after") == f"before {MARK} after"


def test_the_password_of_an_address_goes_and_the_rest_stays() -> None:
    assert redact("postgresql://deskyard:hunter2hunter2@db:5432/deskyard") == (
        f"postgresql://{MARK}@db:5432/deskyard"
    )


@pytest.mark.parametrize(
    "text",
    [
        "dy_office",
        "Bearer of good news: everything passed",
        "sha256:" + "a" * 64,
        "http://127.0.0.1:8000/w/lab/runs/1/",
        "c-0001 is gone after 12.0 s, $0.0002",
        "bearer misunderstandings",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert redact(text) == text


def test_secrets_that_the_console_runs_with_go_whatever_they_look_like() -> None:
    for secret in (conf.SECRET_KEY, conf.DESKYARD_SIGNING_KEY, *conf.DESKYARD_SECRET_KEYS):
        assert redact(f"x{secret}y") == f"x{MARK}y"
        assert holds_secret(f"x{secret}y")


def test_a_value_is_redacted_through_and_through() -> None:
    assert redacted({"a": [TOKEN, 1, None], TOKEN: {"b": True}}) == {"a": [MARK, 1, None], MARK: {"b": True}}


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("sent %s", (TOKEN,)),
        ("headers %r", ({"Cookie": "sessionid=abcdefgh12345678; csrftoken=zyx98765"},)),
        ("password=swordfish99", ()),
        ('{"password": "swordfish99"}', ()),
        ("password=correct horse swordfish99", ()),
    ],
)
def test_a_line_of_the_log_holds_no_secret(message: str, arguments: tuple[Any, ...]) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, message, arguments, None)
    line = RedactingFormatter().format(record)
    assert MARK in line
    for secret in (TOKEN, "abcdefgh12345678", "zyx98765", "swordfish99"):
        assert secret not in line


def test_nor_does_a_traceback() -> None:
    try:
        raise ValueError(f"could not use {TOKEN}")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "broke", (), sys.exc_info())
    assert TOKEN not in RedactingFormatter().format(record)


def test_every_handler_of_the_console_redacts() -> None:
    config = conf.LOGGING
    for handler in config["handlers"].values():
        assert config["formatters"][handler["formatter"]]["()"] == "console.redaction.RedactingFormatter"


def test_the_servers_own_log_of_requests_holds_none_and_a_line_each() -> None:
    import console.asgi  # noqa: F401  what Daphne loads

    written = io.StringIO()
    log = AccessLogGenerator(written)
    link = "/invitations/" + "Ab3_-xyz" * 5
    for path in (
        f"/v1/runs?token={TOKEN}",
        link + "/",
        "/accounts/password/reset/key/1a-cz8xk1-0123456789abcdef/",
        link.replace("invitations", "ws/live"),
        "/a\nb",
    ):
        log("http", "complete", {"client": "c", "method": "GET", "path": path, "status": 404, "size": 1})
    lines = written.getvalue().splitlines()
    assert len(lines) == 5
    for line in lines[:4]:
        assert MARK in line
    assert TOKEN not in written.getvalue()
    assert link.removeprefix("/invitations/") not in written.getvalue()


@pytest.mark.django_db
@pytest.mark.parametrize("where", ["name", "task_set", "unknown", "key"])
def test_a_token_in_a_body_is_refused_and_not_repeated(
    api: Callable[..., APIClient], material: dict[str, Any], where: str
) -> None:
    good = document("basics", ["task-1"])
    body = {**good, TOKEN: 1} if where == "key" else {**good, where: f"run with {TOKEN}"}
    reply = api().post("/v1/runs", body)
    assert (reply.status_code, reply.json()["code"]) == (400, "misplaced_secret")
    assert TOKEN not in reply.content.decode()


@pytest.mark.django_db
def test_a_token_in_an_address_or_another_header_is_refused(api: Callable[..., APIClient]) -> None:
    for reply in (
        api().get(f"/v1/runs?token={TOKEN}"),
        api().get(f"/v1/runs/{TOKEN}"),
        api().post("/v1/runs", {}, HTTP_IDEMPOTENCY_KEY=TOKEN),
    ):
        assert (reply.status_code, reply.json()["code"]) == (400, "misplaced_secret")
        assert reply["Content-Type"] == "application/problem+json"


@pytest.mark.django_db
def test_a_token_in_a_form_is_refused_with_a_page(
    workspace: Workspace, owner: User, client_for: Callable[[User], Client]
) -> None:
    reply = client_for(owner).post("/w/lab/tokens/", {"name": TOKEN, "scopes": ["runs:read"]})
    assert reply.status_code == 400
    assert "Authorization header only" in reply.content.decode()
    assert TOKEN not in reply.content.decode()
