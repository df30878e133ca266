"""Invitations: a link that is shown once, works once, for seven days, and for no more than its maker may do."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.actions.workspaces import change_role, remove_member
from console.actor import Actor
from console.models import AuditEntry, Invitation, Membership, User, Workspace
from tests.factories import UserFactory

ClientFor = Callable[[User], Client]
EMAIL, PASSWORD = "nora@example.test", "seven green bottles"
NEW = {"name": "Nora New", "password": PASSWORD}


@pytest.fixture
def address(workspace: Workspace) -> str:
    return reverse("member-list", args=[workspace.slug])


@pytest.fixture
def invited(client_for: ClientFor, admin: User, address: str) -> Callable[..., str]:
    """Invite, and give the path of the link."""

    def invite(email: str = EMAIL, role: str = "member", by: User = admin) -> str:
        reply = client_for(by).post(address, {"email": email, "role": role})
        assert reply.status_code == 201, reply.context["errors"]
        return _path(reply)

    return invite


def _path(reply: Any) -> str:
    found = re.search(r"<code>http://[^/]+(/invitations/[^<]+)</code>", reply.content.decode())
    assert found
    return found[1]


def _roles(workspace: Workspace) -> dict[str, str]:
    return dict(workspace.memberships.values_list("user__email", "role"))


def test_a_newcomer_makes_an_account_and_is_in(
    invited: Callable[..., str], workspace: Workspace, admin: User
) -> None:
    path, client = invited("Nora@Example.test "), Client()
    page = client.get(path).content.decode()
    assert "Adam Admin" in page
    assert EMAIL in page
    reply = client.post(path, NEW)
    assert (reply.status_code, reply["Location"]) == (302, "/w/lab/")
    assert client.get("/w/lab/").status_code == 200
    user = User.objects.get(email=EMAIL)
    assert (user.name, user.check_password(PASSWORD)) == ("Nora New", True)
    assert EmailAddress.objects.get(user=user).verified
    assert _roles(workspace)[EMAIL] == "member"
    happened = AuditEntry.objects.filter(workspace=workspace).order_by("pk").values_list("action", flat=True)
    assert list(happened)[1:] == ["invitation.sent", "invitation.accepted", "account.signed_in"]


def test_the_link_works_once(invited: Callable[..., str]) -> None:
    path = invited()
    Client().post(path, NEW)
    assert Client().get(path).status_code == 404
    assert Client().post(path, NEW | {"name": "Second"}).status_code == 404
    assert User.objects.filter(email=EMAIL).count() == 1


@pytest.mark.parametrize(
    ("form", "field"),
    [({"name": " "}, "name"), ({"password": "short"}, "password"), ({"password": "password12"}, "password")],
)
def test_a_bad_name_or_password_is_said_and_leaves_the_link_good(
    invited: Callable[..., str], form: dict[str, str], field: str
) -> None:
    path = invited()
    reply = Client().post(path, NEW | form)
    assert reply.status_code == 422
    assert list(reply.context["errors"]) == [field]
    assert Client().post(path, NEW).status_code == 302


def test_an_account_joins_with_a_button(
    invited: Callable[..., str], client_for: ClientFor, workspace: Workspace
) -> None:
    nora, path = UserFactory(email=EMAIL), invited(role="admin")
    page = Client().get(path).content.decode()
    assert f"/accounts/login/?next={path}" in page
    assert "Make my account" not in page
    assert Client().post(path, NEW).status_code == 422
    client = client_for(nora)
    assert "Use another account" in client.get(path).content.decode()
    assert client.post(path)["Location"] == "/w/lab/"
    assert _roles(workspace)[EMAIL] == "admin"
    assert client.get(path).status_code == 404


def test_another_account_is_named_before_it_joins(
    invited: Callable[..., str], client_for: ClientFor, outsider: User, workspace: Workspace
) -> None:
    path, client = invited(), client_for(outsider)
    assert "the invitation is for nora@example.test" in client.get(path).content.decode()
    client.post(path)
    assert _roles(workspace)[outsider.email] == "member"
    assert AuditEntry.objects.get(action="invitation.accepted").detail["account"] == outsider.email


def test_a_member_who_opens_it_leaves_it_good(
    invited: Callable[..., str], client_for: ClientFor, member: User
) -> None:
    path = invited()
    assert client_for(member).post(path)["Location"] == "/w/lab/"
    assert Client().get(path).status_code == 200


def test_it_ends_by_expiry_revocation_and_renewal(
    invited: Callable[..., str], client_for: ClientFor, admin: User, address: str
) -> None:
    path, client = invited(), client_for(admin)
    row = Invitation.objects.get()
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert Client().get(path).status_code == 404
    renewed = client.post(reverse("member-invitation-renew", args=["lab", row.pk]))
    assert renewed.status_code == 201
    assert Client().get(path).status_code == 404
    assert Client().get(_path(renewed)).status_code == 200
    assert client.post(reverse("member-invitation-revoke", args=["lab", row.pk])).status_code == 302
    assert Client().get(_path(renewed)).status_code == 404
    for name in ("member-invitation-renew", "member-invitation-revoke"):
        assert client.post(reverse(name, args=["lab", row.pk])).status_code == 404


def test_the_secret_is_in_no_table(invited: Callable[..., str], client_for: ClientFor, admin: User) -> None:
    secret = invited().split("/")[2]
    assert secret not in str(Invitation.objects.values())
    assert secret not in str(AuditEntry.objects.values())
    assert secret not in client_for(admin).get(reverse("member-list", args=["lab"])).content.decode()


def test_a_member_invites_nobody_and_an_admin_no_owner(
    client_for: ClientFor, member: User, admin: User, owner: User, outsider: User, address: str
) -> None:
    form = {"email": EMAIL, "role": "owner"}
    assert client_for(member).post(address, form | {"role": "member"}).status_code == 403
    assert client_for(outsider).post(address, form).status_code == 404
    assert client_for(admin).post(address, form).status_code == 403
    assert not Invitation.objects.exists()
    assert client_for(owner).post(address, form).status_code == 201
    row = Invitation.objects.get()
    assert client_for(admin).post(reverse("member-invitation-renew", args=["lab", row.pk])).status_code == 403
    assert (
        client_for(member).post(reverse("member-invitation-revoke", args=["lab", row.pk])).status_code == 403
    )
    assert EMAIL not in client_for(member).get(address).content.decode()


def test_a_link_does_no_more_than_its_maker_still_may(
    invited: Callable[..., str], workspace: Workspace, owner: User, admin: User, client_for: ClientFor
) -> None:
    path = invited()
    membership = Membership.objects.get(user=admin)
    change_role(membership, role="member", actor=Actor.person(owner))
    assert Client().get(path).status_code == 404
    assert "No good, renew it" in client_for(owner).get("/w/lab/members/").content.decode()
    change_role(membership, role="admin", actor=Actor.person(owner))
    assert Client().get(path).status_code == 200
    remove_member(membership, actor=Actor.person(owner))
    assert Client().post(path, NEW).status_code == 404


def test_an_e_mail_is_invited_once_at_a_time(
    invited: Callable[..., str], client_for: ClientFor, admin: User, member: User, address: str
) -> None:
    invited()
    for email, why in ((EMAIL.upper(), "invited already"), (member.email, "a member already")):
        reply = client_for(admin).post(address, {"email": email, "role": "member"})
        assert reply.status_code == 422
        assert why in reply.context["errors"]["email"]


def test_another_workspace_s_invitation_is_not_found(
    invited: Callable[..., str], client_for: ClientFor, outsider: User, other_workspace: Workspace
) -> None:
    invited()
    row = Invitation.objects.get()
    for name in ("member-invitation-renew", "member-invitation-revoke"):
        assert client_for(outsider).post(reverse(name, args=["elsewhere", row.pk])).status_code == 404


def test_the_link_is_mailed_where_a_server_is_set(invited: Callable[..., str], settings: Any) -> None:
    invited("first@example.test")
    assert not mail.outbox
    settings.EMAIL_HOST = "mail.example.test"
    path = invited()
    (sent,) = mail.outbox
    assert sent.to == [EMAIL]
    assert path in sent.body


def test_whoever_guesses_has_to_wait(invited: Callable[..., str]) -> None:
    cache.clear()  # of what this address has tried in other tests
    path = invited()
    for number in range(10):
        assert Client().get(f"/invitations/guess-{number}/").status_code == 404
    assert Client().get("/invitations/guess/").status_code == 429
    assert Client().get(path).status_code == 429
