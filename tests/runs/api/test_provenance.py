"""GET /v1/runs/{id}/provenance and GET /v1/keys: verified here as a stranger would, with cryptography alone."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.utils import timezone
from rest_framework.test import APIClient

from console.models import LedgerEntry, Workspace
from runs import provenance
from runs.models import Run
from tests.factories import AttemptFactory, AttemptTryFactory, EventFactory, RunFactory, StepFactory, recount

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(workspace: Workspace) -> Run:
    run = RunFactory(workspace=workspace, status="running", planned=2)
    good = AttemptFactory(run=run, valid=True)
    row = AttemptTryFactory(
        attempt=good,
        verdict={
            "checker": "exact_match",
            "checker_digest": "d" * 64,
            "evidence": [{"artefacts": {"a.txt": "e" * 64}}],
        },
    )
    StepFactory(attempt_try=row)
    LedgerEntry.objects.create(
        workspace=workspace,
        budget=run.budget,
        subject=row.computer.pk,
        rate_usd_per_hour=Decimal("0.06"),
        opened_at=timezone.now(),
        settled_at=timezone.now(),
        seconds=Decimal("12.000"),
        cost=Decimal("0.0002"),
    )
    run.budget.spent = Decimal("0.0002")
    run.budget.save()
    AttemptFactory(run=run, faulty=True)
    EventFactory.create_batch(3, run=run)
    return recount(run)


def verified(envelope: dict[str, Any], keys: list[dict[str, Any]]) -> dict[str, Any]:
    payload, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"].encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    [signature] = envelope["signatures"]
    [key] = [key for key in keys if key["keyid"] == signature["keyid"]]
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key["public"]))
    public.verify(base64.b64decode(signature["sig"]), signed)
    statement: dict[str, Any] = json.loads(payload)
    return statement


def lines_digest(lines: list[dict[str, Any]]) -> str:
    text = "".join(
        json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines
    )
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_manifest_verifies_with_the_published_key(api: Callable[..., APIClient], run: Run) -> None:
    keys = APIClient().get("/v1/keys").json()["keys"]
    reply = api("runs:read").get(f"/v1/runs/{run.pk}/provenance")
    assert reply["Content-Disposition"] == 'attachment; filename="run-1-provenance.json"'
    statement = verified(reply.json(), keys)
    predicate = statement["predicate"]
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert predicate["run"]["request"] == run.spec
    assert predicate["run"]["final"] is False
    assert predicate["resolved"]["template"]["recipe_digest"] == run.template_version.digest
    assert [task["id"] for task in predicate["resolved"]["tasks"]] == ["task-1", "task-2"]


def test_every_figure_can_be_computed_again_from_it(api: Callable[..., APIClient], run: Run) -> None:
    statement = verified(
        api().get(f"/v1/runs/{run.pk}/provenance").json(), APIClient().get("/v1/keys").json()["keys"]
    )
    predicate = statement["predicate"]
    attempts = predicate["attempts"]
    assert sum(a["verifier"] == "valid" for a in attempts) == predicate["counts"]["valid"] == 1
    assert sum(a["outcome"] == "success" for a in attempts) == predicate["counts"]["success"] == 1
    assert sum(a["status"] == "error" for a in attempts) == predicate["counts"]["error"] == 1
    spent = sum(Decimal(desktop["ledger"]["cost_usd"]) for desktop in predicate["desktops"])
    assert spent == Decimal(predicate["cost"]["spent_usd"]) == Decimal("0.0002")
    assert statement["subject"][0]["digest"]["sha256"] == lines_digest(attempts)
    [played] = attempts[0]["tries"]
    assert played["artefacts"] == ["e" * 64]
    assert len(played["screenshots"]) == 1
    assert played["checker_digest"] == "d" * 64


def test_the_event_log_hashes_to_its_digest(api: Callable[..., APIClient], run: Run) -> None:
    statement = provenance.statement(run)
    rows = api().get(f"/v1/runs/{run.pk}/events").json()["results"]
    digests = {one["name"].rpartition("/")[2]: one["digest"]["sha256"] for one in statement["subject"]}
    assert digests["events"] == lines_digest(rows)


def test_a_changed_manifest_does_not_verify(api: Callable[..., APIClient], run: Run) -> None:
    envelope = api().get(f"/v1/runs/{run.pk}/provenance").json()
    payload = base64.b64decode(envelope["payload"]).replace(b'"success":1', b'"success":2')
    envelope["payload"] = base64.b64encode(payload).decode()
    with pytest.raises(InvalidSignature):
        verified(envelope, APIClient().get("/v1/keys").json()["keys"])


def test_a_large_run_has_its_manifest_once_it_has_ended(
    api: Callable[..., APIClient], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provenance, "INLINE", 1)
    refused = api().get(f"/v1/runs/{run.pk}/provenance")
    assert (refused.status_code, refused.json()["code"]) == (409, "run_not_ended")
    Run.objects.filter(pk=run.pk).update(
        status="completed", stop_reason="all_tasks_done", ended_at=timezone.now()
    )
    reply = api().get(f"/v1/runs/{run.pk}/provenance")
    assert reply["Content-Type"] == "application/x-ndjson"
    assert reply["Content-Disposition"] == 'attachment; filename="run-1-provenance.jsonl"'
    *rows, envelope = [json.loads(line) for line in b"".join(reply).splitlines()]
    assert [row["kind"] for row in rows] == ["attempt", "attempt", "desktop"]
    verified(envelope, APIClient().get("/v1/keys").json()["keys"])


def test_it_asks_the_database_as_often_for_many_attempts(run: Run, django_assert_num_queries: Any) -> None:
    run = Run.objects.select_related("workspace", "budget", "task_set", "template_version__template").get()
    for _ in range(2):
        with django_assert_num_queries(21):
            provenance.statement(run)
        for attempt in AttemptFactory.create_batch(5, run=run, valid=True):
            StepFactory(attempt_try=AttemptTryFactory(attempt=attempt))
