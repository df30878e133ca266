"""Errors are RFC 9457 documents, whatever goes wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client
from rest_framework.exceptions import Throttled, ValidationError
from rest_framework.test import APIClient

from console.api.problems import exception_handler
from console.models import User, Workspace

pytestmark = pytest.mark.django_db
MEMBERS = {"type", "title", "status", "code", "detail", "errors"}


@pytest.mark.parametrize(
    "address", ["/v1/nope", "/v1/", "/v1/runs/", "/v1/runs/1/2/3", "/v1/blobs/xyz", "/v1/runs//"]
)
def test_an_unknown_route_is_a_problem_too(api: Callable[..., APIClient], address: str) -> None:
    for client in (api(), APIClient()):
        for method in ("get", "post", "put", "delete", "patch", "options"):
            reply = getattr(client, method)(address)
            assert reply.status_code == 404
            assert reply["Content-Type"] == "application/problem+json"
            assert set(reply.json()) == MEMBERS


def test_what_breaks_inside_stays_inside(
    api: Callable[..., APIClient], workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("the password is hunter2")

    monkeypatch.setattr("runs.api.views.create_run", broken)
    client = api()
    client.raise_request_exception = False
    reply = client.post("/v1/runs", {})
    assert reply.status_code == 500
    assert reply["Content-Type"] == "application/problem+json"
    assert reply.json()["code"] == "internal_error"
    assert b"hunter2" not in reply.content


def test_the_same_error_is_loud_in_tests_and_logs(
    api: Callable[..., APIClient], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("runs.api.views.create_run", broken)
    with pytest.raises(RuntimeError, match="boom"):
        api().post("/v1/runs", {})
    assert "/v1/runs failed" in caplog.text


@pytest.mark.parametrize("accept", ["text/html", "image/png", "application/xml", "nonsense"])
def test_an_error_is_json_whatever_is_accepted(api: Callable[..., APIClient], accept: str) -> None:
    reply = api().get("/v1/runs?limit=x", headers={"Accept": accept})
    assert reply.status_code == 422
    assert reply["Content-Type"] == "application/problem+json"


def test_throttling_says_when_to_come_again() -> None:
    reply = exception_handler(Throttled(wait=2.5), {})
    assert reply.status_code == 429
    assert reply["Retry-After"] == "3"
    assert reply.data["code"] == "throttled"


def test_nested_errors_are_told_flat() -> None:
    error = ValidationError(
        {"a": {"b": ["wrong"]}, "non_field_errors": ["all wrong"], "c": [{"d": ["x"]}, {}]}
    )
    reply = exception_handler(error, {})
    assert [(e["field"], e["code"], e["message"]) for e in reply.data["errors"]] == [
        ("a.b", "invalid", "wrong"),
        ("", "invalid", "all wrong"),
        ("c.d", "invalid", "x"),
    ]


def test_a_database_that_is_away_is_a_503_that_says_when_to_come_again(
    api: Callable[..., APIClient], workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("the connection is closed")

    monkeypatch.setattr("runs.api.views.create_run", away)
    reply = api().post("/v1/runs", {})
    assert (reply.status_code, reply.json()["code"]) == (503, "database_unavailable")
    assert int(reply["Retry-After"]) > 0


def test_the_browsable_page_answers_only_to_readers(client: Client) -> None:
    assert client.options("/v1/docs/").status_code == 405


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/runs", {"HTTP_HOST": "elsewhere.example"}),
        ("/v1/nope", {"HTTP_HOST": "a b"}),
        ("/v1/runs", {"content_type": "multipart/form-data"}),
        ("/v1/runs", {"content_type": "multipart/form-data; boundary="}),
    ],
)
def test_what_cannot_be_read_is_a_problem_at_every_door(
    path: str,
    headers: dict[str, Any],
    owner: User,
    api: Callable[..., APIClient],
) -> None:
    """Also with a session, whose check of the CSRF token is the first to look into the body."""
    of_session = Client(enforce_csrf_checks=True)
    of_session.force_login(owner)
    for client in (api(), APIClient(), of_session):
        reply = client.generic("POST", path, "x", **{"content_type": "application/json", **headers})
        assert 400 <= reply.status_code < 500
        assert reply["Content-Type"] == "application/problem+json"
        assert set(reply.json()) == MEMBERS


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("/v1/runs/1", "GET /v1/runs?number=1 finds it."),
        ("/v1/runs/20/attempts", "GET /v1/runs?number=20 finds it."),
        ("/v1/attempts/4/steps", "GET /v1/runs/{id}/attempts lists those of a run."),
        ("/v1/task-sets", "Did you mean /v1/task_sets?"),
        ("/v1/runs/", "Did you mean /v1/runs?"),
        ("/v1/task_sets/basics", "Did you mean /v1/task_sets?"),
        ("/v1/attempts/0190d4f6-0000-7000-8000-000000000000/step", "Did you mean /v1/attempts/{id}/steps?"),
        ("/v1/nothing-of-the-kind-at-all", "/v1/docs/ lists them all."),
    ],
)
def test_an_address_that_is_not_there_says_what_may_have_been_meant(asked: str, said: str) -> None:
    reply = APIClient().get(asked)
    assert (reply.status_code, reply.json()["code"]) == (404, "not_found")
    assert reply.json()["detail"].endswith(said)
