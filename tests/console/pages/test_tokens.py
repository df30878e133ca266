"""Tokens: made with scopes and an expiry, shown once, revoked; members see and revoke their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console.actions.tokens import issue_token
from console.actor import Actor
from console.models import Token, User, Workspace

ClientFor = Callable[[User], Client]


@pytest.fixture
def address(workspace: Workspace) -> str:
    return reverse("token-list", args=[workspace.slug])


def _token(workspace: Workspace, user: User, name: str) -> Token:
    token, _ = issue_token(
        workspace=workspace,
        user=user,
        name=name,
        scopes=["runs:read"],
        expires_in=None,
        actor=Actor.person(user),
    )
    return token


def _revoke(client: Client, token: Token) -> int:
    return client.post(reverse("token-revoke", args=[token.workspace.slug, token.token_key])).status_code


def test_a_token_is_shown_once_and_never_again(client_for: ClientFor, member: User, address: str) -> None:
    client = client_for(member)
    form = {"name": "notebook", "scopes": ["runs:read", "runs:write"], "expires": "30"}
    reply = client.post(address, form)
    assert reply.status_code == 201
    secret = reply.context["secret"]
    assert secret.startswith("dy_")
    assert secret in reply.content.decode()
    assert "no-store" in reply["Cache-Control"]
    token = Token.objects.get()
    assert (token.name, token.user, token.scopes) == ("notebook", member, ["runs:read", "runs:write"])
    assert timedelta(days=29) < token.expiry - timezone.now() < timedelta(days=31)
    assert secret not in client.get(address).content.decode()


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"name": " "}, "name", "Give the token a name"),
        ({"scopes": []}, "scopes", "Choose at least one scope"),
        ({"scopes": ["runs:read", "everything"]}, "scopes", "Unknown scope: everything"),
        ({"scopes": ["runs:read", "workers:connect"]}, "scopes", "stands alone"),
        ({"expires": "9999"}, "expires", "Choose one of the list"),
        ({"spend_ceiling": "much", "scopes": ["runs:write"]}, "spend_ceiling", "An amount in dollars"),
        ({"spend_ceiling": "0", "scopes": ["runs:write"]}, "spend_ceiling", "From $0.01"),
        ({"spend_ceiling": "5"}, "spend_ceiling", "None of these scopes can spend"),
    ],
)
def test_bad_input_is_said_beside_its_field(
    client_for: ClientFor, owner: User, address: str, change: dict[str, object], field: str, words: str
) -> None:
    form = {"name": "ci", "scopes": ["runs:read"], "expires": "90", **change}
    reply = client_for(owner).post(address, form)
    assert reply.status_code == 422
    assert words in reply.context["errors"][field]
    assert 'role="alert"' in reply.content.decode()
    assert not Token.objects.exists()


def test_a_token_has_a_spend_ceiling_of_its_own(client_for: ClientFor, member: User, address: str) -> None:
    form = {"name": "ci", "scopes": ["runs:write"], "expires": "90", "spend_ceiling": "7.5"}
    reply = client_for(member).post(address, form)
    assert reply.status_code == 201
    budget = Token.objects.get().budget
    assert budget is not None
    assert (budget.cap, budget.spent) == (Decimal("7.50"), 0)
    assert "of $7.50" in reply.content.decode()


def test_two_live_tokens_cannot_share_a_name(
    client_for: ClientFor, owner: User, workspace: Workspace, address: str
) -> None:
    token = _token(workspace, owner, "ci")
    client, form = client_for(owner), {"name": "ci", "scopes": ["runs:read"], "expires": "never"}
    assert "exists already" in client.post(address, form).context["errors"]["name"]
    _revoke(client, token)
    assert client.post(address, form).status_code == 201


def test_a_member_cannot_make_a_worker_s_token(client_for: ClientFor, member: User, address: str) -> None:
    form = {"name": "yard", "scopes": ["workers:connect"], "expires": "never"}
    assert client_for(member).post(address, form).status_code == 403
    assert not Token.objects.exists()


def test_members_see_and_revoke_their_own_only(
    client_for: ClientFor, workspace: Workspace, owner: User, member: User, address: str
) -> None:
    mine, theirs = _token(workspace, member, "mine"), _token(workspace, owner, "theirs")
    client = client_for(member)
    page = client.get(address).content.decode()
    assert "mine" in page
    assert ">theirs<" not in page
    assert _revoke(client, theirs) == 404
    assert _revoke(client, mine) == 302
    assert not Token.objects.get(pk=mine.pk).is_live
    assert Token.objects.get(pk=theirs.pk).is_live


def test_admins_see_and_revoke_all(
    client_for: ClientFor, workspace: Workspace, member: User, admin: User, address: str
) -> None:
    token = _token(workspace, member, "mine")
    client = client_for(admin)
    assert "mine" in client.get(address).content.decode()
    assert _revoke(client, token) == 302
    assert not Token.objects.get(pk=token.pk).is_live


def test_an_outsider_finds_nothing(
    client_for: ClientFor, workspace: Workspace, owner: User, outsider: User, address: str
) -> None:
    token = _token(workspace, owner, "ci")
    client = client_for(outsider)
    assert client.get(address).status_code == 404
    assert client.post(address, {"name": "x", "scopes": ["runs:read"], "expires": "30"}).status_code == 404
    assert _revoke(client, token) == 404
    assert Token.objects.get().is_live


def test_a_visit_cannot_revoke(client_for: ClientFor, workspace: Workspace, owner: User) -> None:
    token = _token(workspace, owner, "ci")
    address = reverse("token-revoke", args=[workspace.slug, token.token_key])
    assert client_for(owner).get(address).status_code == 405
    assert client_for(owner).delete(reverse("token-list", args=[workspace.slug])).status_code == 405
