"""An account's own pages: password, second factor with recovery codes, sessions; all in the console's clothes."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.models import AuditEntry, User, Workspace
from tests.factories import PASSWORD, UserFactory

ClientFor = Callable[[User], Client]
pytestmark = pytest.mark.django_db


def totp(secret: str, steps_ago: int = 0) -> str:
    """RFC 6238 by hand: what an authenticator app shows."""
    counter = struct.pack(">Q", int(time.time()) // 30 - steps_ago)
    digest = hmac.new(base64.b32decode(secret), counter, hashlib.sha1).digest()
    at = digest[-1] & 15
    return f"{(int.from_bytes(digest[at : at + 4]) & 0x7FFFFFFF) % 1_000_000:06}"


def sign_in(user: User) -> tuple[Client, str]:
    """With the password; the client, and where it was sent."""
    client = Client()
    reply = client.post(reverse("account_login"), {"login": user.email, "password": PASSWORD})
    assert reply.status_code == 302, reply.content
    return client, reply["Location"]


def turn_on(client: Client) -> str:
    """Show that it is you, scan, type the code; gives the secret."""
    client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
    page = client.get(reverse("mfa_activate_totp"))
    found = re.search(r"<code>([A-Z2-7]+)</code>", page.content.decode())
    assert found, page.content
    reply = client.post(reverse("mfa_activate_totp"), {"code": totp(found[1])})
    assert reply.status_code == 302, reply.content
    return found[1]


def happened(workspace: Workspace) -> list[str]:
    rows = AuditEntry.objects.filter(workspace=workspace, action__startswith="account.").order_by("pk")
    return [action.removeprefix("account.") for action in rows.values_list("action", flat=True)]


def test_a_second_factor_is_turned_on_asked_for_and_turned_off(
    workspace: Workspace, member: User, django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    client, _ = sign_in(member)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        secret = turn_on(client)
    sealed = str(list(Authenticator.objects.values_list("data", flat=True)))
    assert secret not in sealed
    assert f"On since {timezone.now():%-d %B}" in client.get(reverse("mfa_index")).content.decode()

    client, where = sign_in(member)
    assert where.startswith(reverse("mfa_authenticate"))
    assert client.get("/w/lab/").status_code == 302
    assert client.post(where, {"code": "000000"}).status_code == 200
    assert client.get("/w/lab/").status_code == 302
    # Typed a moment ago, the present code would be refused as used.
    assert client.post(where, {"code": totp(secret, steps_ago=-1)}).status_code == 302
    assert client.get("/w/lab/").status_code == 200

    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        client.post(reverse("account_reauthenticate"), {"password": PASSWORD})
        assert client.post(reverse("mfa_deactivate_totp")).status_code == 302
    assert not Authenticator.objects.exists()
    assert sign_in(member)[1] == "/"
    assert happened(workspace) == [
        "signed_in",
        "second_factor_added",
        "second_factor_added",  # its recovery codes
        "second_factor_failed",
        "signed_in",
        "second_factor_removed",
        "second_factor_removed",
        "signed_in",
    ]


def test_a_recovery_code_stands_in_once(workspace: Workspace, member: User) -> None:
    client, _ = sign_in(member)
    turn_on(client)
    page = client.get(reverse("mfa_view_recovery_codes")).content.decode()
    codes = re.search(r"<pre[^>]*>([^<]+)</pre>", page)
    assert codes
    code = codes[1].split()[0]
    assert len(codes[1].split()) == 10
    client, where = sign_in(member)
    assert client.post(where, {"code": code}).status_code == 302
    assert client.get("/w/lab/").status_code == 200
    client, where = sign_in(member)
    assert client.post(where, {"code": code}).status_code == 200
    assert client.get("/w/lab/").status_code == 302


def test_codes_cannot_be_guessed(workspace: Workspace, member: User) -> None:
    client, _ = sign_in(member)
    secret = turn_on(client)
    client, where = sign_in(member)
    for _ in range(5):
        client.post(where, {"code": "000000"})
    assert client.post(where, {"code": totp(secret, steps_ago=-1)}).status_code != 302
    assert client.get("/w/lab/").status_code == 302


def test_the_administration_asks_for_the_second_factor_too(workspace: Workspace) -> None:
    operator = UserFactory(is_staff=True, is_superuser=True)
    client, _ = sign_in(operator)
    turn_on(client)
    reply = Client().get("/admin/login/?next=/admin/")
    assert reply["Location"].startswith(reverse("account_login"))
    client, _ = sign_in(operator)
    assert client.get("/admin/").status_code == 302


def test_the_operator_takes_a_lost_factor_off(
    workspace: Workspace, member: User, client_for: ClientFor
) -> None:
    client, _ = sign_in(member)
    turn_on(client)
    operator = client_for(UserFactory(is_staff=True, is_superuser=True))
    first = Authenticator.objects.earliest("pk")
    form = {"action": "take_off", "_selected_action": str(first.pk)}
    assert operator.post(reverse("admin:mfa_authenticator_changelist"), form).status_code == 302
    assert sign_in(member)[1] == "/"
    entry = AuditEntry.objects.get(action="account.second_factor_taken_off")
    assert (entry.workspace, entry.actor_kind, entry.subject) == (workspace, "operator", member.email)


def test_what_concerns_security_asks_for_the_password(
    workspace: Workspace, member: User, client_for: ClientFor
) -> None:
    client = client_for(member)
    reply = client.get(reverse("mfa_activate_totp"))
    assert reply["Location"].startswith(reverse("account_reauthenticate"))
    page = client.get(reverse("account_reauthenticate"))
    assert "Is it you?" in page.content.decode()
    assert client.post(reverse("account_reauthenticate"), {"password": "wrong"}).status_code == 200
    assert client.post(reverse("account_reauthenticate"), {"password": PASSWORD}).status_code == 302
    assert client.get(reverse("mfa_activate_totp")).status_code == 200


def test_a_password_is_changed_with_the_one_of_before(workspace: Workspace, member: User) -> None:
    client, _ = sign_in(member)
    address = reverse("account_change_password")
    new = dict.fromkeys(("password1", "password2"), "twelve purple geese")
    reply = client.post(address, new | {"oldpassword": "not this"})
    assert reply.status_code == 200
    assert "is-invalid" in reply.content.decode() or 'aria-invalid="true"' in reply.content.decode()
    assert client.post(address, new | {"oldpassword": PASSWORD}).status_code == 302
    member.refresh_from_db()
    assert member.check_password("twelve purple geese")
    assert happened(workspace)[-1] == "password_changed"


def test_a_forgotten_password_is_set_by_mail(workspace: Workspace, member: User, settings: object) -> None:
    client = Client()
    for email in (member.email, "nobody@example.test"):
        client.post(reverse("account_reset_password"), {"email": email})
    (sent,) = mail.outbox
    link = re.search(r"http://testserver(/accounts/password/reset/key/\S+)", sent.body)
    assert link, sent.body
    assert "example.com" not in sent.body
    page = client.get(link[1], follow=True)
    form = dict.fromkeys(("password1", "password2"), "twelve purple geese")
    assert client.post(page.redirect_chain[-1][0], form).status_code == 302
    member.refresh_from_db()
    assert member.check_password("twelve purple geese")
    assert "no good any more" in Client().get(link[1], follow=True).content.decode()


def test_other_sessions_are_seen_and_signed_out(workspace: Workspace, member: User) -> None:
    other, _ = sign_in(member)
    client, _ = sign_in(member)
    page = client.get(reverse("usersessions_list")).content.decode()
    assert page.count("Signed in") == 2
    assert client.post(reverse("usersessions_list")).status_code == 302
    assert other.get("/w/lab/").status_code == 302
    assert client.get("/w/lab/").status_code == 200


def test_addresses_that_are_not_offered_are_not_there(
    workspace: Workspace, member: User, client_for: ClientFor
) -> None:
    client = client_for(member)
    for path in ("confirm-email/", "confirm-email/x/", "login/code/confirm/", "reauthenticate/code/"):
        assert client.get(f"/accounts/{path}").status_code == 404
    assert client.post("/accounts/email/", {"email": "new@example.test", "action_add": ""}).status_code == 405
    assert client.post("/accounts/signup/", {"email": "a@example.test", "password1": "x"}).status_code == 302


@pytest.mark.parametrize(
    "name",
    [
        "account_change_password",
        "account_email",
        "account_logout",
        "account_reauthenticate",
        "mfa_index",
        "usersessions_list",
    ],
)
def test_pages_of_the_account_speak_our_words(
    name: str, workspace: Workspace, member: User, client_for: ClientFor
) -> None:
    page = client_for(member).get(reverse(name)).content.decode()
    assert "deskyard.css" in page
    for stock in ("Two-Factor", "Please", "Authenticator App", "Email Addresses", "Menu:"):
        assert stock not in page


def test_a_person_switches_mail_about_their_runs_off_and_on(
    member: User, client_for: ClientFor, settings: Any
) -> None:
    client = client_for(member)
    assert "Mail about runs" not in client.get("/accounts/email/").content.decode()
    settings.EMAIL_HOST = "mail.example.test"
    assert "Send me none" in client.get("/accounts/email/").content.decode()
    for wanted in ("off", "off", "on"):
        assert client.post("/accounts/email/runs/", {"run_mail": wanted}).url == "/accounts/email/"
        member.refresh_from_db()
        assert member.run_mail is (wanted == "on")
    told = AuditEntry.objects.filter(action="account.run_mail").order_by("pk")
    assert [entry.detail["wanted"] for entry in told] == [False, True]


def test_a_wrong_password_is_said_in_plain_words_that_tell_no_account(member: User) -> None:
    said = {
        Client()
        .post(reverse("account_login"), {"login": email, "password": "wrong"})
        .context["form"]
        .non_field_errors()[0]
        for email in (member.email, "nobody@example.test")
    }
    assert said == {"No account has this email with this password. Check both, then try again."}
