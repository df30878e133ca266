"""The workers' door for files, and the readers'."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from console.actions.blobs import MAX_BYTES
from console.models import Blob, User, Workspace
from tests.factories import PNG, blob

pytestmark = pytest.mark.django_db
DIGEST = hashlib.sha256(PNG).hexdigest()
DOOR = f"/v1/worker/blobs/{DIGEST}"


def put(client: APIClient, data: bytes = PNG, address: str = DOOR) -> int:
    return client.put(address, data, content_type="application/octet-stream").status_code


def test_a_worker_stores_a_file_once(api: Callable[..., APIClient], workspace: Workspace) -> None:
    worker = api("workers:connect")
    assert worker.head(DOOR).status_code == 404
    assert put(worker) == 200
    assert put(worker) == 200
    assert worker.head(DOOR).status_code == 200
    row = Blob.objects.get()
    assert (row.workspace, row.size, row.content_type) == (workspace, len(PNG), "image/png")


def test_bytes_of_another_digest_are_refused(api: Callable[..., APIClient]) -> None:
    reply = api("workers:connect").put(DOOR, PNG + b"x", content_type="application/octet-stream")
    assert reply.status_code == 422
    assert reply.json()["code"] == "digest_mismatch"
    assert Blob.objects.count() == 0


def test_an_empty_file_is_a_file(api: Callable[..., APIClient]) -> None:
    digest = hashlib.sha256(b"").hexdigest()
    assert put(api("workers:connect"), b"", f"/v1/worker/blobs/{digest}") == 200


def test_a_file_that_is_too_large_is_a_413(
    api: Callable[..., APIClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.api.blobs.MAX_BYTES", 10)
    assert put(api("workers:connect")) == 413
    assert MAX_BYTES == 64 << 20


def test_only_a_workers_token_opens_the_door(api: Callable[..., APIClient]) -> None:
    assert put(api()) == 403
    assert put(APIClient()) == 401
    assert api("workers:connect").get(DOOR).status_code == 405
    assert put(api("workers:connect"), address="/v1/worker/blobs/../../etc/passwd") == 404


def test_the_same_file_in_two_workspaces_is_known_to_each_by_itself(
    api: Callable[..., APIClient], outsider: User, other_workspace: Workspace
) -> None:
    put(api("workers:connect"))
    theirs = api("workers:connect", user=outsider, workspace=other_workspace)
    assert theirs.head(DOOR).status_code == 404
    assert put(theirs) == 200
    assert Blob.objects.count() == 2


def test_a_reader_gets_a_picture_as_a_picture(api: Callable[..., APIClient], workspace: Workspace) -> None:
    blob(workspace)
    reply = api("runs:read").get(f"/v1/blobs/{DIGEST}")
    assert reply["Content-Type"] == "image/png"
    assert "immutable" in reply["Cache-Control"]
    assert reply.content == PNG


def test_anything_else_is_a_download(api: Callable[..., APIClient]) -> None:
    page = b"<script>alert(1)</script>"
    digest = hashlib.sha256(page).hexdigest()
    put(api("workers:connect"), page, f"/v1/worker/blobs/{digest}")
    reply = api("runs:read").get(f"/v1/blobs/{digest}")
    assert reply["Content-Type"] == "application/octet-stream"
    assert reply["Content-Disposition"].startswith("attachment")
    assert reply["X-Content-Type-Options"] == "nosniff"
    assert reply.content == page


def test_the_file_of_another_workspace_is_a_404(
    api: Callable[..., APIClient], workspace: Workspace, outsider: User, other_workspace: Workspace
) -> None:
    blob(workspace)
    assert api(user=outsider, workspace=other_workspace).get(f"/v1/blobs/{DIGEST}").status_code == 404
    assert api("runs:write").get(f"/v1/blobs/{DIGEST}").status_code == 403
    assert APIClient().get(f"/v1/blobs/{DIGEST}").status_code == 401
