"""The one way into the audit log. Verbs call it in their transaction: an entry exists when its deed does."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from console.actor import Actor
from console.models import AuditEntry, User, Workspace
from console.models.audit import LABEL_LENGTH, SUBJECT_LENGTH
from console.source import present_source

log = logging.getLogger("deskyard.audit")


def record(
    *,
    workspace: Workspace | None,
    actor: Actor,
    action: str,
    subject: str,
    detail: Mapping[str, Any] | None = None,
) -> AuditEntry:
    """`action` is dotted (`member.added`), `subject` a short human name (`run #12`).

    `detail` is plain JSON, money as strings, and holds no secret.
    """
    source = present_source()
    log.info("%s %r workspace=%s by=%r", action, subject, workspace and workspace.slug, actor.label)
    return AuditEntry.objects.create(
        workspace=workspace,
        actor_kind=actor.kind,
        actor_label=actor.label[:LABEL_LENGTH],
        user=actor.user,
        action=action,
        subject=subject[:SUBJECT_LENGTH],
        detail=dict(detail or {}),
        via=source.via,
        ip=source.ip,
    )


def record_of_account(
    *, user: User, actor: Actor, action: str, detail: Mapping[str, Any] | None = None
) -> None:
    """What happens to an account (sign-in, password, second factor) is told in each workspace that its person is in."""
    workspaces: list[Workspace | None] = [*Workspace.objects.of(user)]
    for workspace in workspaces or [None]:
        record(workspace=workspace, actor=actor, action=action, subject=user.email, detail=detail)
