"""The audit log: each verb leaves one entry, with its deed or not at all, and nobody changes it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from console.actions.audit import record
from console.actions.tokens import issue_token, revoke_token
from console.actions.workspaces import add_member, change_role, remove_member
from console.actor import Actor
from console.models import AuditEntry, User, Workspace
from desktops.actions.pause import pause_worker, resume_worker
from runs.actions.stop import cancel_run
from tests.factories import RunFactory, UserFactory, WorkerFactory, document


def _log(workspace: Workspace | None) -> list[tuple[str, str, str]]:
    """Oldest first: action, subject, actor."""
    rows = AuditEntry.objects.filter(workspace=workspace).order_by("pk")
    return list(rows.values_list("action", "subject", "actor_label"))


def test_people_and_tokens_leave_entries(workspace: Workspace, owner: User) -> None:
    nora, actor = UserFactory(email="nora@example.test", name="Nora"), Actor.person(owner)
    membership = add_member(workspace, user=nora, role="member", actor=actor)
    membership = change_role(membership, role="admin", actor=actor)
    token, _ = issue_token(
        workspace=workspace,
        user=nora,
        name="ci",
        scopes=["runs:read"],
        expires_in=None,
        actor=Actor.person(nora),
    )
    revoke_token(token, actor=actor)
    revoke_token(token, actor=actor)
    remove_member(membership, actor=Actor.person(nora))
    assert _log(workspace) == [
        ("workspace.created", "workspace Lab", "Olga Owner"),
        ("member.added", "nora@example.test", "Olga Owner"),
        ("member.role_changed", "nora@example.test", "Olga Owner"),
        ("token.issued", "token ci", "Nora"),
        ("token.revoked", "token ci", "Olga Owner"),
        ("member.left", "nora@example.test", "Nora"),
    ]
    changed = AuditEntry.objects.get(action="member.role_changed")
    assert changed.detail == {"role": "admin", "was": "member"}


def test_a_secret_is_in_no_entry(workspace: Workspace, owner: User, secret_for: Callable[..., str]) -> None:
    secret = secret_for("runs:read")
    assert not any(secret[11:] in str(entry.detail) for entry in AuditEntry.objects.all())


def test_a_run_is_created_and_cancelled_by_name(
    api: Callable[..., APIClient],
    workspace: Workspace,
    owner: User,
    client_for: Callable[[User], Client],
    material: dict[str, Any],
) -> None:
    assert api("runs:write").post("/v1/runs", document("basics", ["task-1"])).status_code == 201
    client_for(owner).post(reverse("run-cancel", args=["lab", 1]))
    created, cancelled = AuditEntry.objects.filter(action__startswith="run.").order_by("pk")
    assert (created.actor_kind, created.via, created.ip) == ("token", "API", "127.0.0.1")
    assert (cancelled.actor_kind, cancelled.via, cancelled.user) == ("user", "page", owner)
    assert created.subject == cancelled.subject == "run #1"


def test_an_operator_s_deed_says_so(workspace: Workspace, outsider: User) -> None:
    cancel_run(RunFactory(workspace=workspace), actor=Actor.operator(outsider))
    entry = AuditEntry.objects.get(action="run.cancelled")
    assert (entry.actor_kind, entry.actor_label, entry.user) == ("operator", "the operator", outsider)


def test_a_pause_that_changes_nothing_leaves_nothing(workspace: Workspace, owner: User) -> None:
    worker, actor = WorkerFactory(workspace=workspace), Actor.person(owner)
    pause_worker(worker, actor=actor)
    pause_worker(worker, actor=actor)
    resume_worker(worker, actor=actor)
    assert [entry[0] for entry in _log(workspace)][1:] == ["worker.paused", "worker.resumed"]


def test_what_is_undone_leaves_no_entry(workspace: Workspace, owner: User) -> None:
    with transaction.atomic():
        add_member(workspace, user=UserFactory(email="nobody"), role="member", actor=Actor.person(owner))
        transaction.set_rollback(True)
    assert not AuditEntry.objects.filter(subject="nobody").exists()


def test_the_database_refuses_to_change_or_delete_an_entry(workspace: Workspace, owner: User) -> None:
    for spoil in (
        lambda: AuditEntry.objects.update(subject="nothing"),
        lambda: AuditEntry.objects.update(user=None, subject="nothing"),
        lambda: AuditEntry.objects.all().delete(),
    ):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            spoil()


def test_an_entry_outlives_the_account(workspace: Workspace, db: None) -> None:
    gone = UserFactory(name="Gone")
    entry = record(workspace=None, actor=Actor.person(gone), action="account.signed_in", subject=gone.email)
    gone.delete()
    entry.refresh_from_db()
    assert (entry.user, entry.actor_label) == (None, "Gone")
