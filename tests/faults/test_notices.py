"""A run that ends is told to whoever asked for it, from the real worker to the real receiver."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from http.server import BaseHTTPRequestHandler

import pytest

from tests.console.receiver import Got, Receiver

from .people import Person, words
from .processes import until
from .rig import Rig
from .scenario import Played, Scenario

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(1800)]

ARRIVED_SECONDS = 120  # it is tried again after five


def webhook(rig: Rig) -> Played:
    """Its receiver is out of order at first."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(500 if len(receiver.got) == 1 else 204)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    lab = rig.lab()
    lab.worker(slots=1)
    with Person(rig, "owner") as owner, Receiver(hold=answer) as receiver:
        page = f"/w/{lab.slug}/webhooks/"
        made = owner.submit(page, url=receiver.url, events="run.completed")
        (secret,) = set(re.findall(r"whsec_[A-Za-z0-9+/=]{20,}", words(made)))
        run = lab.run("solved")
        lab.await_end(run)
        key = rig.value("SELECT id FROM console_webhook WHERE workspace_id = %s", lab.key)
        arrived = "SELECT delivered_at FROM console_delivery WHERE webhook_id = %s"
        until(lambda: rig.value(arrived, key), ARRIVED_SECONDS, "the arrival")
        log = owner.reads(f"{page}{key}/")
    return Played(lab, run, got=receiver.got, secret=secret, log=log)


SCENARIOS = {"webhook": Scenario(30, webhook)}


def test_webhook(played: Played) -> None:
    first, again = played.seen["got"]
    assert first.headers["webhook-id"] == again.headers["webhook-id"]
    assert first.body == again.body
    for got in (first, again):
        assert got.headers["webhook-signature"] == signature(played.seen["secret"], got)
    told = json.loads(again.body)
    assert told["type"] == "run.completed"
    assert told["data"]["run"]["id"] == played.run
    assert told["data"]["run"]["stop_reason"] == "all_tasks_done"
    tries = re.findall(r"\b(500|204) \d", played.seen["log"])
    assert sorted(tries) == ["204", "500"]
    assert "Delivered" in played.seen["log"]


def signature(secret: str, got: Got) -> str:
    """As any receiver would make it from what it holds."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{got.headers['webhook-id']}.{got.headers['webhook-timestamp']}.{got.body}"
    return f"v1,{base64.b64encode(hmac.digest(key, signed.encode(), hashlib.sha256)).decode()}"
