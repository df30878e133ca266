"""Webhooks: who is told when a run ends, and the outbox. Messages are written in the transaction of what they tell and
leave the house later, by `console.postman`."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Collection, Mapping
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from console import outbound
from console.actor import Actor
from console.models import Delivery, User, Webhook, Workspace
from console.sealed import seal

from .audit import record
from .workspaces import require_manager

MOST: Final = 20  # of a workspace
TEST_EVENT: Final = "webhook.test"
SUBJECT_LENGTH: Final = 200


@transaction.atomic
def add_webhook(
    *, workspace: Workspace, url: str, events: Collection[str], actor: Actor
) -> tuple[Webhook, str]:
    """The webhook and its signing secret, `whsec_…`, which nobody can read again. ValidationError by field."""
    require_manager(workspace, actor, what="add webhooks")
    url, errors = url.strip(), {}
    try:
        outbound.parts_of(url)
    except outbound.BadAddress as refused:
        errors["url"] = str(refused)
    if not events or set(events) - set(Webhook.Event.values):
        errors["events"] = "Choose at least one event of the list."
    if Webhook.objects.for_workspace(workspace).count() >= MOST:
        errors["url"] = f"A workspace has at most {MOST} webhooks."
    if errors:
        raise ValidationError(errors)
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"
    ordered = [event for event in Webhook.Event.values if event in events]
    try:
        with transaction.atomic():
            webhook = Webhook.objects.create(
                workspace=workspace, url=url, events=ordered, sealed_secret=seal(secret), creator=actor.user
            )
    except IntegrityError as error:
        raise ValidationError({"url": "This address has a webhook already."}) from error
    _record("webhook.added", webhook, actor, events=ordered)
    return webhook, secret


@transaction.atomic
def set_active(webhook: Webhook, *, active: bool, actor: Actor) -> None:
    """Switch it on or off; what was due while it was off is given up. Twice changes nothing."""
    require_manager(webhook.workspace, actor, what="change webhooks")
    if not Webhook.objects.filter(pk=webhook.pk, active=not active).update(active=active):
        return
    webhook.active = active
    if not active:
        webhook.deliveries.filter(due_at__isnull=False).update(due_at=None)
    _record("webhook.enabled" if active else "webhook.disabled", webhook, actor)


@transaction.atomic
def remove_webhook(webhook: Webhook, *, actor: Actor) -> None:
    """It goes, and the log of its deliveries with it."""
    require_manager(webhook.workspace, actor, what="remove webhooks")
    _record("webhook.removed", webhook, actor)
    webhook.delete()


@transaction.atomic
def send_test(webhook: Webhook, *, actor: Actor) -> Delivery:
    require_manager(webhook.workspace, actor, what="test webhooks")
    data = {"workspace": webhook.workspace.slug, "by": actor.label}
    _record("webhook.tested", webhook, actor)
    return _put(webhook, TEST_EVENT, "Test", _body(TEST_EVENT, data))


@transaction.atomic
def redeliver(delivery: Delivery, *, actor: Actor) -> None:
    """The same message again, under its own id, with all its tries before it."""
    assert delivery.webhook is not None
    require_manager(delivery.workspace, actor, what="send webhooks again")
    Delivery.objects.filter(pk=delivery.pk).update(due_at=timezone.now(), tries=0, delivered_at=None)
    _record("webhook.redelivered", delivery.webhook, actor, message=delivery.message_id)


def announce(*, workspace: Workspace, event: str, subject: str, data: Mapping[str, Any]) -> int:
    """Put it in the outbox for each webhook that wants it, in the caller's transaction. Returns for how many."""
    wanted = list(Webhook.objects.for_workspace(workspace).filter(active=True, events__contains=[event]))
    body = _body(event, data) if wanted else ""
    for webhook in wanted:
        _put(webhook, event, subject, body)
    return len(wanted)


def mail(*, workspace: Workspace, recipient: User, event: str, subject: str, body: str) -> Delivery | None:
    """Put a mail in the outbox, in the caller's transaction; None where none is wanted or can be sent."""
    if not settings.EMAIL_HOST or not recipient.is_active or not recipient.run_mail:
        return None
    return Delivery.objects.create(
        workspace=workspace,
        recipient=recipient,
        event=event,
        subject=subject[:SUBJECT_LENGTH],
        body=body,
        due_at=timezone.now(),
    )


def _put(webhook: Webhook, event: str, subject: str, body: str) -> Delivery:
    return Delivery.objects.create(
        workspace=webhook.workspace,
        webhook=webhook,
        event=event,
        subject=subject[:SUBJECT_LENGTH],
        body=body,
        due_at=timezone.now(),
    )


def _body(event: str, data: Mapping[str, Any]) -> str:
    said = {"type": event, "timestamp": timezone.now().isoformat().replace("+00:00", "Z"), "data": data}
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def _record(action: str, webhook: Webhook, actor: Actor, **detail: Any) -> None:
    subject = f"webhook to {webhook.host}"
    record(workspace=webhook.workspace, actor=actor, action=action, subject=subject, detail=detail)
