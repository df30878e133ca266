"""Members: everybody sees the list, admins and owners change it, and an owner always remains."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from console.actions.tokens import issue_token
from console.actor import Actor
from console.models import Membership, Token, User, Workspace
from console.pages.members import ROLES
from tests.factories import UserFactory

ClientFor = Callable[[User], Client]
Role = Membership.Role


@pytest.fixture
def address(workspace: Workspace) -> str:
    return reverse("member-list", args=[workspace.slug])


def _role(client: Client, workspace: Workspace, user: User, role: str) -> int:
    return client.post(reverse("member-role", args=[workspace.slug, user.pk]), {"role": role}).status_code


def _remove(client: Client, workspace: Workspace, user: User) -> int:
    return client.post(reverse("member-remove", args=[workspace.slug, user.pk])).status_code


def _is(workspace: Workspace, user: User) -> str | None:
    return Membership.objects.filter(workspace=workspace, user=user).values_list("role", flat=True).first()


def test_everybody_sees_who_is_in(client_for: ClientFor, member: User, owner: User, address: str) -> None:
    page = client_for(member).get(address).content.decode()
    assert owner.email in page
    assert "Invite somebody" not in page


def test_the_words_for_a_member_name_each_page_that_is_not_theirs(
    client_for: ClientFor, member: User, owner: User, address: str
) -> None:
    pages = {
        link.word: link.href
        for _, links in client_for(owner).get(address).context["shell"].groups
        for link in links
    }
    client = client_for(member)
    kept_from = [word for word, href in pages.items() if client.get(href).status_code == 403]
    assert kept_from == ["Webhooks", "Audit log", "Settings"]
    denied = ROLES[Role.MEMBER].split("Neither ")[1].lower()
    assert all(word.lower() in denied for word in kept_from)


@pytest.mark.parametrize(
    ("form", "field", "words"),
    [
        ({"email": "nonsense", "role": "member"}, "email", "not an e-mail address"),
        ({"email": "mia@example.test", "role": "member"}, "email", "a member already"),
        ({"email": "otto@example.test", "role": "emperor"}, "role", "Unknown role"),
    ],
)
def test_bad_input_is_said_beside_its_field(
    client_for: ClientFor,
    owner: User,
    member: User,
    outsider: User,
    address: str,
    form: dict[str, str],
    field: str,
    words: str,
) -> None:
    reply = client_for(owner).post(address, form)
    assert reply.status_code == 422
    assert words in reply.context["errors"][field]


def test_a_member_changes_nothing(
    client_for: ClientFor, workspace: Workspace, member: User, admin: User, outsider: User, address: str
) -> None:
    client = client_for(member)
    assert client.post(address, {"email": outsider.email, "role": "member"}).status_code == 403
    assert _role(client, workspace, member, Role.OWNER) == 403
    _remove(client, workspace, admin)
    assert _is(workspace, admin) == Role.ADMIN
    assert _is(workspace, member) == Role.MEMBER


def test_only_an_owner_makes_and_unmakes_owners(
    client_for: ClientFor, workspace: Workspace, owner: User, admin: User, member: User, address: str
) -> None:
    as_admin = client_for(admin)
    _role(as_admin, workspace, member, Role.OWNER)
    _role(as_admin, workspace, owner, Role.MEMBER)
    _remove(as_admin, workspace, owner)
    assert (_is(workspace, member), _is(workspace, owner)) == (Role.MEMBER, Role.OWNER)
    newcomer = UserFactory()
    assert as_admin.post(address, {"email": newcomer.email, "role": "owner"}).status_code == 403
    _role(client_for(owner), workspace, member, Role.OWNER)
    assert _is(workspace, member) == Role.OWNER


def test_the_last_owner_stays(client_for: ClientFor, workspace: Workspace, owner: User, admin: User) -> None:
    client = client_for(owner)
    _role(client, workspace, owner, Role.ADMIN)
    _remove(client, workspace, owner)
    assert _is(workspace, owner) == Role.OWNER
    _role(client, workspace, admin, Role.OWNER)
    _remove(client, workspace, owner)
    assert _is(workspace, owner) is None


def test_whoever_leaves_or_is_removed_loses_their_tokens(
    client_for: ClientFor, workspace: Workspace, owner: User, member: User
) -> None:
    token, _ = issue_token(
        workspace=workspace,
        user=member,
        name="notebook",
        scopes=["runs:read"],
        expires_in=None,
        actor=Actor.person(member),
    )
    assert _remove(client_for(member), workspace, member) == 302
    assert _is(workspace, member) is None
    assert not Token.objects.get(pk=token.pk).is_live


def test_an_outsider_finds_nothing(
    client_for: ClientFor, workspace: Workspace, member: User, outsider: User, address: str
) -> None:
    client = client_for(outsider)
    assert client.get(address).status_code == 404
    assert client.post(address, {"email": outsider.email, "role": "owner"}).status_code == 404
    assert _role(client, workspace, member, Role.OWNER) == 404
    assert _remove(client, workspace, member) == 404


def test_another_workspace_s_member_is_not_found(
    client_for: ClientFor, workspace: Workspace, other_workspace: Workspace, owner: User, outsider: User
) -> None:
    assert _remove(client_for(owner), workspace, outsider) == 404


def test_a_visit_changes_nothing(
    client_for: ClientFor, workspace: Workspace, owner: User, member: User
) -> None:
    for name in ("member-role", "member-remove"):
        assert client_for(owner).get(reverse(name, args=[workspace.slug, member.pk])).status_code == 405
