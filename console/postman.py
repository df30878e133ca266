"""Takes the outbox out of the house: signed webhooks (Standard Webhooks) and mail, tried again for some hours.

A message is claimed in a short transaction, which also sets when it is due again, and sent outside of any: a
postman that is killed loses nothing, and at worst a message comes twice, under the same id. It has threads of its
own, so a slow receiver keeps neither the supervisor nor other receivers waiting.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import random
import smtplib
import threading
import time
from collections import Counter
from datetime import datetime, timedelta
from typing import Final, Self

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import InterfaceError, OperationalError, connection, transaction
from django.utils import timezone

from console import outbound
from console.models import Delivery, DeliveryTry, Webhook
from console.sealed import unseal

log = logging.getLogger(__name__)
LOOK_SECONDS: Final = 1.0
# Waits after each try that failed, in seconds; after the last, nearly seven hours in all, it is given up.
WAITS: Final = (5, 30, 120, 600, 1800, 3600, 7200, 10800)
AGAIN_WHEN_KILLED: Final = timedelta(seconds=90)
KEPT: Final = timedelta(days=30)  # what has arrived or was given up stays in the log so long
TIDY_SECONDS: Final = 3600.0
AT_ONCE: Final = 8
AT_ONCE_EACH: Final = 2  # to one webhook, so that a slow one leaves room for the others


def signature(secret: str, message_id: str, timestamp: int, body: str) -> str:
    """`v1,<base64>`: HMAC-SHA256 of `id.timestamp.body` under the bytes that `whsec_…` stands for."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{timestamp}.{body}".encode()
    return f"v1,{base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()}"


def claim(busy: Counter[object]) -> Delivery | None:
    """The message that is due longest, of a receiver that is not busy; due again later, should this process die."""
    full = [webhook for webhook, sending in busy.items() if webhook and sending >= AT_ONCE_EACH]
    with transaction.atomic():
        due = Delivery.objects.select_for_update(skip_locked=True, of=["self"], no_key=True).filter(
            due_at__lte=timezone.now()
        )
        row: Delivery | None = (
            due.exclude(webhook__in=full)
            .select_related("webhook", "recipient", "workspace")
            .order_by("due_at")
            .first()
        )
        if row is not None:
            row.tries, row.due_at = row.tries + 1, timezone.now() + AGAIN_WHEN_KILLED
            row.save(update_fields=["tries", "due_at"])
    return row


def deliver(delivery: Delivery) -> outbound.Answer:
    """Send a claimed message, log the try, and say when it is due again, if it is."""
    answer = _post(delivery, delivery.webhook) if delivery.webhook else _mail(delivery)
    with transaction.atomic():
        DeliveryTry.objects.create(
            delivery=delivery, status=answer.status, milliseconds=answer.milliseconds, error=answer.error
        )
        delivery.delivered_at = timezone.now() if answer.ok else None
        delivery.due_at = None if answer.ok else _due_again(delivery, answer)
        delivery.save(update_fields=["delivered_at", "due_at"])
    if not answer.ok:
        log.info("%s, try %s: %s", delivery, delivery.tries, answer.error or answer.status)
    return answer


def _due_again(delivery: Delivery, answer: outbound.Answer) -> datetime | None:
    if delivery.tries > len(WAITS) or answer.status == 410:  # 410: the receiver says it is gone for good
        return None
    hook = delivery.webhook
    if hook is not None and not Webhook.objects.filter(pk=hook.pk, active=True).exists():
        return None
    wait = WAITS[delivery.tries - 1]
    return timezone.now() + timedelta(seconds=wait * random.uniform(0.9, 1.1))


def _post(delivery: Delivery, webhook: Webhook) -> outbound.Answer:
    timestamp = int(time.time())
    signed = signature(unseal(webhook.sealed_secret), delivery.message_id, timestamp, delivery.body)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"Deskyard/{settings.VERSION}",
        "webhook-id": delivery.message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signed,
    }
    return outbound.post(webhook.url, headers=headers, body=delivery.body.encode())


def _mail(delivery: Delivery) -> outbound.Answer:
    assert delivery.recipient is not None
    began = time.monotonic()
    try:
        EmailMessage(delivery.subject, delivery.body, to=[delivery.recipient.email]).send()
    except (OSError, smtplib.SMTPException) as error:
        took = round((time.monotonic() - began) * 1000)
        return outbound.Answer(None, took, f"The mail server: {type(error).__name__}.")
    return outbound.Answer(250, round((time.monotonic() - began) * 1000), "")


def tidy() -> int:
    """Forget what is done and older than KEPT. Returns how many messages."""
    old = Delivery.objects.filter(due_at=None, created_at__lt=timezone.now() - KEPT)
    return old.delete()[1].get("console.Delivery", 0)


class Postman:
    """`with Postman(): …` – sends what is due, in threads of its own, until the block ends."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._busy: Counter[object] = Counter()
        self._thread = threading.Thread(target=self._run, name="postman", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(LOOK_SECONDS * 3)

    def _run(self) -> None:
        tidied = -TIDY_SECONDS
        while not self._stop.wait(LOOK_SECONDS):
            try:
                if time.monotonic() - tidied >= TIDY_SECONDS:
                    tidied = time.monotonic()
                    tidy()
                while not self._stop.is_set() and self._take_one():
                    pass
            except (OperationalError, InterfaceError) as error:
                log.warning("The outbox is out of reach: %s", error)
                connection.close()
            except Exception:  # one row that cannot be read must not end the post for everybody
                log.exception("Looking into the outbox failed; it is looked at again")
        connection.close()

    def _take_one(self) -> bool:
        with self._lock:
            busy = Counter(self._busy)
        if busy.total() >= AT_ONCE:
            return False
        delivery = claim(busy)
        if delivery is None:
            return False
        with self._lock:
            self._busy[delivery.webhook_id] += 1
        # A daemon: a receiver that takes its time does not keep this process from ending, and is due again.
        threading.Thread(target=self._send, args=(delivery,), name="postman sends", daemon=True).start()
        return True

    def _send(self, delivery: Delivery) -> None:
        try:
            deliver(delivery)
        except Exception:  # it is due again in a while: logged, and the other messages go on
            log.exception("Sending %s failed", delivery)
        finally:
            connection.close()
            with self._lock:
                self._busy[delivery.webhook_id] -= 1
                self._busy += Counter()  # forgets who is not busy any more
