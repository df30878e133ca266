"""Accounts in the administration: what the operator does to them is in the audit log, and secrets are not shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.test import Client
from django.urls import reverse

from console.models import AuditEntry, User, Workspace
from tests.factories import UserFactory

ClientFor = Callable[[User], Client]
INLINES = {f"memberships-{key}_FORMS": "0" for key in ("TOTAL", "INITIAL")}


@pytest.fixture
def operator(db: None, client_for: ClientFor) -> Client:
    return client_for(UserFactory(is_staff=True, is_superuser=True))


def test_an_e_mail_that_the_operator_changes_is_the_only_one(
    operator: Client, workspace: Workspace, member: User
) -> None:
    EmailAddress.objects.create(user=member, email=member.email, primary=True, verified=True)
    form: dict[str, Any] = {"email": "mia.married@example.test", "name": member.name, "is_active": "on"}
    reply = operator.post(reverse("admin:console_user_change", args=[member.pk]), form | INLINES)
    assert reply.status_code == 302, reply.content
    assert list(EmailAddress.objects.values_list("email", "primary")) == [("mia.married@example.test", True)]
    entry = AuditEntry.objects.get(action="account.changed_by_operator")
    assert (entry.workspace, entry.actor_kind, entry.via) == (workspace, "operator", "admin")
    assert entry.detail == {"fields": "email"}


def test_a_new_account_is_an_entry_of_the_whole_console(operator: Client) -> None:
    form = {"email": "new@example.test", "name": "New Person", "usable_password": "true"}
    form |= dict.fromkeys(("password1", "password2"), "a-long-enough-secret")
    assert operator.post(reverse("admin:console_user_add"), form | INLINES).status_code == 302
    entry = AuditEntry.objects.get(action="account.created")
    assert (entry.workspace, entry.subject) == (None, "new@example.test")
    assert "a-long-enough-secret" not in str(entry.detail)


def test_an_account_is_closed_and_not_deleted(operator: Client, workspace: Workspace, member: User) -> None:
    assert (
        operator.post(reverse("admin:console_user_delete", args=[member.pk]), {"post": "yes"}).status_code
        == 403
    )
    assert User.objects.filter(pk=member.pk).exists()


def test_secrets_of_second_factors_and_sessions_are_not_shown(
    operator: Client, workspace: Workspace, member: User
) -> None:
    secret = generate_totp_secret()
    factor = TOTP.activate(member, secret).instance
    page = operator.get(reverse("admin:mfa_authenticator_change", args=[factor.pk])).content.decode()
    assert secret not in page
    assert Authenticator.objects.get().data["secret"] not in page
    for name in (
        "account_emailaddress",
        "mfa_authenticator",
        "usersessions_usersession",
        "console_auditentry",
    ):
        assert operator.get(reverse(f"admin:{name}_changelist")).status_code == 200
        assert operator.get(reverse(f"admin:{name}_add")).status_code == 403
