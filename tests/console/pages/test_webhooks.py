from __future__ import annotations

import re
from collections import Counter

import pytest

from console.actions.webhooks import add_webhook
from console.actor import Actor
from console.models import AuditEntry, Delivery, Webhook
from console.postman import claim, deliver
from console.sealed import unseal

pytestmark = pytest.mark.django_db
PAGE = "/w/lab/webhooks/"
URL = "https://hooks.example.com/deskyard/s3cret-path"


@pytest.fixture
def webhook(workspace, owner) -> Webhook:
    made, _ = add_webhook(workspace=workspace, url=URL, events=["run.failed"], actor=Actor.person(owner))
    return made


def test_an_admin_adds_one_and_sees_its_secret_once(workspace, admin, client_for):
    client = client_for(admin)
    reply = client.post(PAGE, {"url": URL, "events": ["run.failed", "run.completed"]})
    assert reply.status_code == 201
    [secret] = set(re.findall(r"whsec_[A-Za-z0-9+/=]+", reply.content.decode()))
    made = Webhook.objects.get()
    assert unseal(made.sealed_secret) == secret
    assert made.events == ["run.completed", "run.failed"]
    assert "whsec_" not in client.get(PAGE).content.decode().replace('"whsec_"', "").replace(
        "&quot;whsec_&quot;", ""
    )
    assert "no-store" in reply["Cache-Control"]
    entry = AuditEntry.objects.get(action="webhook.added")
    assert entry.subject == "webhook to hooks.example.com"
    assert "s3cret-path" not in str(entry.detail)


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"url": "http://hooks.example.com/", "events": ["run.failed"]}, "url"),
        ({"url": "https://127.0.0.1/", "events": ["run.failed"]}, "url"),
        ({"url": "", "events": ["run.failed"]}, "url"),
        ({"url": URL}, "events"),
        ({"url": URL, "events": ["run.started"]}, "events"),
    ],
)
def test_what_cannot_be_is_said_beside_its_field(form, field, workspace, owner, client_for):
    reply = client_for(owner).post(PAGE, form)
    assert reply.status_code == 422
    assert f'href="#f-{field}"' in reply.content.decode()
    assert not Webhook.objects.exists()


def test_an_address_has_one_webhook_and_a_workspace_not_endless_ones(webhook, owner, client_for):
    client = client_for(owner)
    reply = client.post(PAGE, {"url": URL, "events": ["run.failed"]})
    assert "has a webhook already" in reply.content.decode()
    for n in range(25):
        client.post(PAGE, {"url": f"{URL}/{n}", "events": ["run.failed"]})
    assert Webhook.objects.count() == 20


def test_a_test_is_sent_and_every_try_is_shown(webhook, owner, client_for, monkeypatch):
    client = client_for(owner)
    client.post(f"{PAGE}{webhook.pk}/test/")
    row = claim(Counter())
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(2, 1, 6, "", ("10.0.0.1", 443))])
    deliver(row)
    text = client.get(f"{PAGE}{webhook.pk}/").content.decode()
    assert "webhook.test" in text
    assert "Trying again" in text
    assert "Must be an address of the public internet." in text
    client.post(f"{PAGE}{webhook.pk}/deliveries/{row.pk}/")
    assert Delivery.objects.get().state == "due"
    assert "Trying again" not in client.get(PAGE).content.decode()


def test_it_is_switched_off_and_on_and_removed(webhook, owner, client_for):
    client = client_for(owner)
    for to, active in (("off", False), ("off", False), ("on", True)):
        client.post(f"{PAGE}{webhook.pk}/switch/", {"to": to})
        webhook.refresh_from_db()
        assert webhook.active is active
    client.post(f"{PAGE}{webhook.pk}/remove/")
    assert not Webhook.objects.exists()
    actions = AuditEntry.objects.filter(action__startswith="webhook.").order_by("pk")
    assert list(actions.values_list("action", flat=True)) == [
        "webhook.added",
        "webhook.disabled",
        "webhook.enabled",
        "webhook.removed",
    ]


def test_members_and_outsiders_have_no_part_in_it(webhook, member, outsider, client_for):
    pages = [PAGE, f"{PAGE}{webhook.pk}/"]
    deeds = [f"{PAGE}{webhook.pk}/{deed}/" for deed in ("test", "switch", "remove", "deliveries/1")]
    for person, status in ((member, 403), (outsider, 404)):
        client = client_for(person)
        assert [client.get(page).status_code for page in pages] == [status] * 2
        assert [client.post(deed).status_code for deed in deeds] == [status] * 4
    assert "Webhooks" not in client_for(member).get("/w/lab/runs/").content.decode()


def test_the_wrong_method_is_a_405(webhook, owner, client_for):
    assert client_for(owner).get(f"{PAGE}{webhook.pk}/test/").status_code == 405
    assert client_for(owner).post(f"{PAGE}{webhook.pk}/").status_code == 405
