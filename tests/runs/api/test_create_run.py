"""POST /v1/runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from console.models import Budget, IdempotentReply, User, Workspace
from runs.models import Event, Run
from tests.factories import document

pytestmark = pytest.mark.django_db


@pytest.fixture
def good(material: dict[str, Any]) -> dict[str, Any]:
    return document("basics", ["task-1", "task-2"])


def test_the_reply_is_the_queued_run(
    api: Callable[..., APIClient], good: dict[str, Any], workspace: Workspace
) -> None:
    reply = api("runs:write").post("/v1/runs", good)
    run = Run.objects.get()
    assert reply.status_code == 201
    assert reply["Location"] == f"http://testserver/v1/runs/{run.pk}"
    body = reply.json()
    assert body["id"] == str(run.pk)
    assert body["number"] == 1
    assert body["url"].endswith("/w/lab/runs/1/")
    assert (body["status"], body["stop_reason"], body["kind"]) == ("queued", None, "scripted_test")
    assert body["spec"] == good
    assert body["cost"] == {
        "cap_usd": "0.50",
        "spent_usd": "0.00",
        "reserved_usd": "0.00",
        "left_usd": "0.50",
    }
    assert body["counts"] == {
        "planned": 2,
        "queued": 2,
        "running": 0,
        "verifying": 0,
        "done": 0,
        "error": 0,
        "cancelled": 0,
        "valid": 0,
        "invalid": 0,
        "not_checked": 2,
        "success": 0,
        "fail": 0,
    }
    assert body["started_at"] is None
    assert body["created_at"]


def test_a_refused_document_names_its_fields_and_stores_nothing(
    api: Callable[..., APIClient], good: dict[str, Any], workspace: Workspace
) -> None:
    reply = api().post("/v1/runs", {**good, "rounds": 51, "kind": "training", "extra": 1})
    assert reply.status_code == 422
    assert reply["Content-Type"] == "application/problem+json"
    body = reply.json()
    assert (body["code"], body["status"]) == ("invalid_document", 422)
    assert {(error["field"], error["code"]) for error in body["errors"]} == {
        ("rounds", "max_value"),
        ("kind", "not_offered"),
        ("extra", "unknown_field"),
    }
    assert Run.objects.count() == Event.objects.count() == 0
    assert Budget.objects.filter(parent__isnull=False).count() == 0
    workspace.refresh_from_db()
    assert workspace.last_run_number == 0


@pytest.mark.parametrize("cap", ["0.29", "0.5", 0.29, 3])
def test_an_amount_comes_in_exactly(
    api: Callable[..., APIClient], good: dict[str, Any], cap: str | float
) -> None:
    reply = api().post("/v1/runs", {**good, "spend_cap_usd": cap})
    assert reply.json()["cost"]["cap_usd"] == {"0.29": "0.29", "0.5": "0.50", "3": "3.00"}[str(cap)]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"rounds": NaN}',
        b'{"rounds": Infinity}',
        b"[" * 200_000,
        b'{"rounds": ' + b"9" * 5000 + b"}",
        b'{"spend_cap_usd": 1e99999999999999999999}',
        b"nonsense",
    ],
)
def test_what_is_no_json_is_a_400(api: Callable[..., APIClient], body: bytes) -> None:
    reply = api().post("/v1/runs", body, content_type="application/json")
    if body:
        assert reply.status_code == 400
        assert reply.json()["code"] == "malformed"
    else:
        assert reply.status_code == 422


@pytest.mark.parametrize("body", [b"[]", b"null", b"3", b'"run"', b"true"])
def test_a_document_that_is_no_object_is_refused(api: Callable[..., APIClient], body: bytes) -> None:
    reply = api().post("/v1/runs", body, content_type="application/json")
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["code"] == "not_an_object"


def test_a_very_large_document_is_a_413(api: Callable[..., APIClient]) -> None:
    reply = api().post("/v1/runs", b'{"name": "' + b"n" * (1 << 20) + b'"}', content_type="application/json")
    assert reply.status_code == 413
    assert reply.json()["code"] == "too_large"


def test_another_media_type_is_a_415(api: Callable[..., APIClient]) -> None:
    reply = api().post("/v1/runs", b"<run/>", content_type="application/xml")
    assert reply.status_code == 415
    assert reply.json()["code"] == "unsupported_media_type"


def test_a_token_without_the_scope_is_refused(api: Callable[..., APIClient], good: dict[str, Any]) -> None:
    reply = api("runs:read").post("/v1/runs", good)
    assert reply.status_code == 403
    assert reply.json()["code"] == "scope_missing"
    assert "runs:write" in reply.json()["detail"]
    assert Run.objects.count() == 0


def test_without_a_token_it_is_a_401(good: dict[str, Any]) -> None:
    reply = APIClient().post("/v1/runs", good)
    assert reply.status_code == 401
    assert reply["WWW-Authenticate"] == "Bearer"
    assert reply.json()["code"] == "not_authenticated"


def test_the_material_of_another_workspace_does_not_count(
    api: Callable[..., APIClient], good: dict[str, Any], outsider: User, other_workspace: Workspace
) -> None:
    reply = api(user=outsider, workspace=other_workspace).post("/v1/runs", good)
    assert reply.status_code == 422
    assert {error["field"] for error in reply.json()["errors"]} == {"task_set", "template"}


def test_a_browser_session_needs_the_csrf_token(
    owner: User, good: dict[str, Any], workspace: Workspace
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    reply = client.post("/v1/runs", json.dumps(good), content_type="application/json")
    assert reply.status_code == 403
    assert reply.json()["code"] == "csrf_failed"
    client.cookies["csrftoken"] = "a" * 32
    reply = client.post(
        "/v1/runs", json.dumps(good), content_type="application/json", headers={"X-CSRFToken": "a" * 32}
    )
    assert reply.status_code == 201
    assert Run.objects.get().creator == owner


class TestIdempotencyKey:
    def test_the_same_request_twice_is_one_run(
        self, api: Callable[..., APIClient], good: dict[str, Any]
    ) -> None:
        client = api()
        first = client.post("/v1/runs", good, headers={"Idempotency-Key": "night-1"})
        again = client.post("/v1/runs", dict(reversed(good.items())), headers={"Idempotency-Key": "night-1"})
        assert (first.status_code, again.status_code) == (201, 201)
        assert first.json() == again.json()
        assert first["Location"] == again["Location"]
        assert again["Idempotency-Replayed"] == "true"
        assert Run.objects.count() == 1

    def test_another_document_under_the_key_is_a_409(
        self, api: Callable[..., APIClient], good: dict[str, Any]
    ) -> None:
        client = api()
        client.post("/v1/runs", good, headers={"Idempotency-Key": "k"})
        reply = client.post("/v1/runs", {**good, "rounds": 2}, headers={"Idempotency-Key": "k"})
        assert reply.status_code == 409
        assert reply.json()["code"] == "idempotency_key_reused"
        assert Run.objects.count() == 1

    def test_a_refused_request_may_be_mended_under_its_key(
        self, api: Callable[..., APIClient], good: dict[str, Any]
    ) -> None:
        client = api()
        assert client.post("/v1/runs", {}, headers={"Idempotency-Key": "k"}).status_code == 422
        assert IdempotentReply.objects.count() == 0
        assert client.post("/v1/runs", good, headers={"Idempotency-Key": "k"}).status_code == 201

    def test_the_key_of_another_person_is_another_key(
        self, api: Callable[..., APIClient], good: dict[str, Any], member: User
    ) -> None:
        for client in (api(), api(user=member)):
            assert client.post("/v1/runs", good, headers={"Idempotency-Key": "k"}).status_code == 201
        assert Run.objects.count() == 2

    def test_a_key_is_forgotten_after_a_day(
        self, api: Callable[..., APIClient], good: dict[str, Any]
    ) -> None:
        client = api()
        client.post("/v1/runs", good, headers={"Idempotency-Key": "k"})
        IdempotentReply.objects.update(created_at=timezone.now() - timedelta(hours=25))
        client.post("/v1/runs", good, headers={"Idempotency-Key": "k"})
        assert Run.objects.count() == 2

    @pytest.mark.parametrize("key", ["", "k" * 256, "a\tb"])
    def test_a_bad_key_is_a_422(self, api: Callable[..., APIClient], good: dict[str, Any], key: str) -> None:
        reply = api().post("/v1/runs", good, headers={"Idempotency-Key": key})
        assert reply.status_code == 422
        assert reply.json()["errors"][0]["field"] == "Idempotency-Key"


@pytest.mark.parametrize("key", ["\\ud800", "\\u0000", "\\u202e"])
def test_a_field_of_a_strange_name_is_refused_in_words(api: Callable[..., APIClient], key: str) -> None:
    reply = api().post("/v1/runs", f'{{"{key}": 1}}'.encode(), content_type="application/json")
    assert reply.status_code == 422
    assert "unknown_field" in {error["code"] for error in reply.json()["errors"]}


@pytest.mark.parametrize("key", ["spend_cap_usd", "\\ud800"])
def test_a_field_that_comes_twice_is_refused(api: Callable[..., APIClient], key: str) -> None:
    body = f'{{"{key}": "1.00", "{key}": "1000.00"}}'.encode()
    reply = api().post("/v1/runs", body, content_type="application/json")
    assert (reply.status_code, reply.json()["code"]) == (400, "malformed")
    assert "twice" in reply.json()["detail"]
