"""Requests that no client should send, to every route of the OpenAPI document: each gets a problem, never a 500."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from rest_framework.test import APIClient

from console.models import Workspace
from tests.factories import (
    AttemptFactory,
    AttemptTryFactory,
    EventFactory,
    RunFactory,
    StepFactory,
    WorkerFactory,
    document,
    recount,
    sha256,
)

pytestmark = pytest.mark.django_db

HUGE = 10**400
BODIES: list[tuple[str, bytes]] = [
    ("application/json", b""),
    ("application/json", b"null"),
    ("application/json", b"[1, 2]"),
    ("application/json", b'"text"'),
    ("application/json", b"{"),
    ("application/json", b"\xff\xfe"),
    ("application/json", b'{"name": "\\ud800", "rounds": 1e999999}'),
    ("application/json", b'{"\\ud800": 1}'),
    ("application/json", b'{"name": "a\\u0000b", "tasks": ["\\u0000"], "task_set": "\\u0000"}'),
    ("application/json", b'{"a": 1, "a": 2}'),
    ("application/json", b'{"rounds": NaN}'),
    ("application/json", str({"rounds": HUGE, "spend_cap_usd": HUGE}).replace("'", '"').encode()),
    ("application/json", b"[" * 100_000),
    ("application/json; charset=latin-1", b'{"name": "\xe9"}'),
    ("application/xml", b"<run/>"),
    ("text/plain", b"{}"),
    ("nonsense", b"{}"),
    ("", b"{}"),
    ("multipart/form-data", b"--x\r\n"),
    ("multipart/form-data; boundary=", b"--x\r\n"),
    (
        "multipart/form-data; boundary=x",
        b'--x\r\nContent-Disposition: form-data; name="a"; filename="\x00"\r\n\r\n',
    ),
    ("application/x-www-form-urlencoded", b"a=%00&b=%ff&" + b"&".join(b"k%d=1" % n for n in range(2000))),
]
VALUES = [
    "",
    "\x00",
    "-1",
    "0",
    "1.5",
    "true",
    str(HUGE),
    "\ud83d\ude00",
    "a" * 5000,
    "%",
    "../../etc/passwd",
    "\u202e",
    "'--",
]
# Headers are read before any route is: one of each make will do.
READ_HEADERS = ("/v1/runs", "/v1/keys", "/v1/blobs/{sha256}", "/v1/runs/{id}/attempts.{form}")
ALONE = ("\x00", "-1", str(HUGE))  # also sent by themselves: one that is refused may hide what another does
HEADERS = [
    {"HTTP_HOST": "evil.example"},
    {"HTTP_HOST": "a b"},
    {"HTTP_ACCEPT": "nonsense/;;q=x"},
    {"HTTP_AUTHORIZATION": "Bearer"},
    {"HTTP_AUTHORIZATION": "Bearer \xff"},
    {"HTTP_AUTHORIZATION": "Digest x"},
    {"HTTP_IDEMPOTENCY_KEY": "\x00"},
    {"HTTP_IDEMPOTENCY_KEY": "k" * 10_000},
    {"HTTP_RANGE": "bytes=9-1,-,x"},
    {"HTTP_IF_NONE_MATCH": '"\xff'},
    {"HTTP_IF_MODIFIED_SINCE": "yesterday"},
    {"HTTP_COOKIE": "sessionid=\x01; csrftoken=;;="},
    {"HTTP_X_FORWARDED_FOR": "nobody"},
    {"CONTENT_LENGTH": "-5"},
]


@pytest.fixture
def known(workspace: Workspace, material: dict[str, Any]) -> dict[str, str]:
    """What addresses name, and it is there."""
    run = RunFactory(workspace=workspace, status="running", planned=3)
    attempt = AttemptFactory(run=run, valid=True)
    StepFactory(attempt_try=AttemptTryFactory(attempt=attempt))
    EventFactory(run=run)
    WorkerFactory(workspace=workspace)
    recount(run)
    return {
        "run": str(run.pk),
        "attempt": str(attempt.pk),
        "name": "basics",
        "form": "csv",
        "number": "1",
        "sha256": sha256("nothing"),
    }


def routes(api: APIClient) -> list[tuple[str, str, dict[str, Any]]]:
    paths = api.get("/v1/schema", HTTP_ACCEPT="application/vnd.oai.openapi+json").json()["paths"]
    return [
        (method, path, operation)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if method in ("get", "post", "put", "delete", "patch")
    ]


def filled(path: str, known: dict[str, str], wrong: str | None = None) -> str:
    """The address with its names filled in: with what is there, or every one with `wrong`."""
    here = {**known, "id": known["attempt"] if path.startswith("/v1/attempts") else known["run"]}
    for part in path.split("/"):
        while "{" in part:
            name = part[part.index("{") + 1 : part.index("}")]
            value = here[name] if wrong is None else quote(wrong, errors="surrogatepass", safe="")
            part = part.replace(f"{{{name}}}", value)
            path = path.replace(f"{{{name}}}", value)
    return path


def check(reply: Any, what: object) -> None:
    if reply.streaming:
        b"".join(reply)
    assert reply.status_code < 500, (what, reply.status_code)
    if reply.status_code >= 400:
        assert reply["Content-Type"] == "application/problem+json", (
            what,
            reply.status_code,
            reply["Content-Type"],
        )
        problem = reply.json()
        assert problem["status"] == reply.status_code
        assert problem["code"]
        assert problem["detail"]


def test_every_route_bears_any_body_address_parameter_and_header(
    secret_for: Callable[..., str], known: dict[str, str]
) -> None:
    client = Client(raise_request_exception=False)
    bearer = {"HTTP_AUTHORIZATION": f"Bearer {secret_for()}"}
    every = routes(APIClient())
    assert len(every) > 20
    for method, path, operation in every:
        address = filled(path, known)
        if method != "get":
            for kind, body in BODIES:
                reply = client.generic(method, address, body, content_type=kind, **bearer)
                check(reply, (method, path, kind, body[:60]))
            check(client.generic(method, address, b"{}", content_type="application/json"), (method, path))
        parameters = [one["name"] for one in operation.get("parameters", ()) if one["in"] == "query"]
        for value in VALUES:
            said = quote(value, errors="surrogatepass")
            query = "&".join(f"{name}={said}" for name in [*parameters, "workspace", "unknown"])
            check(client.generic(method, f"{address}?{query}", b"", **bearer), (method, path, value))
            if "{" in path:
                check(
                    client.generic(method, filled(path, known, value or "%20"), b"", **bearer),
                    (method, path, value),
                )
            for name in parameters if value in ALONE else ():
                one = client.generic(method, f"{address}?{name}={said}&{name}={said}", b"", **bearer)
                check(one, (method, path, name, value))
        for headers in HEADERS if path in READ_HEADERS else ():
            check(client.generic(method, address, b"{}", **{**bearer, **headers}), (method, path, headers))


@pytest.mark.parametrize("method", ["get", "post", "put", "delete", "patch", "options", "trace"])
def test_no_route_breaks_under_another_method(
    secret_for: Callable[..., str], known: dict[str, str], method: str
) -> None:
    client = Client(raise_request_exception=False)
    bearer = {"HTTP_AUTHORIZATION": f"Bearer {secret_for('runs:read')}"}
    for path in {path for _, path, _ in routes(APIClient())}:
        check(client.generic(method.upper(), filled(path, known), b"{}", "application/json", **bearer), path)


def test_a_name_with_control_characters_makes_no_run(
    api: Callable[..., APIClient], material: dict[str, Any]
) -> None:
    for name in ("a\nb", "a\x00b", "a\x1b[31mb", "a\u202eb"):
        reply = api().post("/v1/runs", document("basics", ["task-1"], name=name))
        assert reply.status_code == 422, name
        assert [error["field"] for error in reply.json()["errors"]] == ["name"]
