"""The outbox: signed, tried again, logged; a slow receiver keeps nobody waiting."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from console.actions.webhooks import add_webhook, announce, redeliver, set_active
from console.actions.webhooks import mail as put_mail
from console.actor import Actor
from console.models import Delivery, DeliveryTry, User, Webhook, Workspace
from console.postman import WAITS, Postman, claim, deliver, signature, tidy

from .receiver import Receiver

Added = Callable[..., tuple[Webhook, str]]


@pytest.fixture(autouse=True)
def _private(settings: Any) -> None:
    settings.WEBHOOKS_TO_PRIVATE = True


@pytest.fixture
def added(workspace: Workspace, owner: User) -> Added:
    def add(url: str) -> tuple[Webhook, str]:
        return add_webhook(workspace=workspace, url=url, events=["run.completed"], actor=Actor.person(owner))

    return add


def tell(workspace: Workspace) -> None:
    announce(workspace=workspace, event="run.completed", subject="Run #1", data={"run": {"number": 1}})


def one_go() -> Delivery:
    row = claim(Counter())
    assert row is not None
    deliver(row)
    row.refresh_from_db()
    return row


def test_a_message_is_signed_as_the_scheme_has_it(workspace: Workspace, added: Added) -> None:
    with Receiver() as receiver:
        _, secret = added(receiver.url)
        tell(workspace)
        row = one_go()
    [got] = receiver.got
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.{got.body}"
    expected = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    assert got.headers["webhook-signature"] == f"v1,{expected}"
    assert got.headers["webhook-id"] == row.message_id
    assert abs(int(got.headers["webhook-timestamp"]) - time.time()) < 10
    said = json.loads(got.body)
    assert (said["type"], said["data"]) == ("run.completed", {"run": {"number": 1}})
    assert row.state == "delivered"


def test_the_signature_is_that_of_the_published_example() -> None:
    """From the scheme's own documentation."""
    assert (
        signature(
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1614265330,
            '{"test": 2432232314}',
        )
        == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    )


def test_one_that_fails_comes_again_later_and_is_given_up_in_the_end(
    workspace: Workspace, added: Added
) -> None:
    with Receiver(status=500) as receiver:
        added(receiver.url)
        tell(workspace)
        for wait in WAITS:
            row = one_go()
            assert row.due_at is not None
            assert wait * 0.8 < (row.due_at - timezone.now()).total_seconds() <= wait * 1.1
            assert claim(Counter()) is None
            Delivery.objects.update(due_at=timezone.now())
        row = one_go()
    assert (row.state, row.tries) == ("given_up", len(WAITS) + 1)
    tries = DeliveryTry.objects.filter(delivery=row)
    assert {(one.status, one.error) for one in tries} == {(500, "")}
    assert len({got.headers["webhook-id"] for got in receiver.got}) == 1


def test_a_receiver_that_is_gone_for_good_is_not_asked_again(workspace: Workspace, added: Added) -> None:
    with Receiver(status=410) as receiver:
        added(receiver.url)
        tell(workspace)
        assert one_go().state == "given_up"


def test_what_was_given_up_can_be_sent_again(workspace: Workspace, added: Added, owner: User) -> None:
    with Receiver(status=410) as receiver:
        added(receiver.url)
        tell(workspace)
        row = one_go()
        receiver.status = 200
        redeliver(row, actor=Actor.person(owner))
        assert one_go().state == "delivered"
    assert [one.status for one in row.try_rows.all()] == [200, 410]


def test_one_that_is_off_is_told_nothing(workspace: Workspace, added: Added, owner: User) -> None:
    with Receiver() as receiver:
        webhook, _ = added(receiver.url)
        tell(workspace)
        set_active(webhook, active=False, actor=Actor.person(owner))
        tell(workspace)
    assert claim(Counter()) is None
    assert Delivery.objects.get().state == "given_up"


def test_a_claim_that_was_never_finished_is_due_again(workspace: Workspace, added: Added) -> None:
    added("http://127.0.0.1:9/")
    tell(workspace)
    row = claim(Counter())
    assert row is not None
    assert claim(Counter()) is None
    Delivery.objects.update(due_at=timezone.now() - timedelta(seconds=1))
    again = claim(Counter())
    assert again is not None
    assert again.message == row.message


def test_what_is_done_is_forgotten_after_a_month(workspace: Workspace, added: Added) -> None:
    added("http://127.0.0.1:9/")
    for _ in range(3):
        tell(workspace)
    done, waiting, _recent = Delivery.objects.order_by("pk")
    old = timezone.now() - timedelta(days=31)
    Delivery.objects.filter(pk__in=[done.pk, waiting.pk]).update(created_at=old)
    Delivery.objects.exclude(pk=waiting.pk).update(due_at=None)
    assert tidy() == 1
    assert not Delivery.objects.filter(pk=done.pk).exists()


def test_the_secret_is_nowhere_in_the_clear(workspace: Workspace, added: Added) -> None:
    with Receiver() as receiver:
        webhook, secret = added(receiver.url)
        tell(workspace)
        one_go()
    webhook.refresh_from_db()
    assert secret not in webhook.sealed_secret
    assert secret.removeprefix("whsec_") not in receiver.got[0].body + str(receiver.got[0].headers)


def test_mail_goes_out_when_a_server_is_set(workspace: Workspace, owner: User, settings: Any) -> None:
    told = {
        "workspace": workspace,
        "recipient": owner,
        "event": "run.completed",
        "subject": "Over",
        "body": "b",
    }
    assert put_mail(**told) is None
    settings.EMAIL_HOST = "mail.example.test"
    put_mail(**told)
    assert one_go().state == "delivered"
    [sent] = mail.outbox
    assert (sent.to, sent.subject, sent.body) == ([owner.email], "Over", "b")


@pytest.mark.django_db(transaction=True)
def test_a_slow_receiver_keeps_no_other_waiting(workspace: Workspace, added: Added) -> None:
    held = threading.Event()
    with Receiver(hold=lambda _: held.wait(20)) as slow, Receiver() as quick:
        added(slow.url)
        for _ in range(4):
            tell(workspace)
        added(quick.url)
        tell(workspace)
        with Postman():
            until = time.monotonic() + 15
            while not quick.got and time.monotonic() < until:
                time.sleep(0.05)
            assert quick.got
            assert 1 <= len(slow.got) <= 2  # of four: no more than two at once
            held.set()
            while (
                Delivery.objects.filter(due_at__isnull=False, tries=0).exists() and time.monotonic() < until
            ):
                time.sleep(0.05)
        _wait_for_threads()


def _wait_for_threads() -> None:
    """Those that send end by themselves; the test's database goes after them."""
    until = time.monotonic() + 15
    while any(one.name.startswith("postman") for one in threading.enumerate()):
        assert time.monotonic() < until
        time.sleep(0.05)
