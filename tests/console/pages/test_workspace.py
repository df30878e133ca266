"""The workspace's settings, making one, and being in several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.models import AuditEntry, Membership, User, Workspace
from tests.factories import MembershipFactory, UserFactory

ClientFor = Callable[[User], Client]
NEW = "/workspaces/new/"
pytestmark = pytest.mark.django_db


@pytest.fixture
def address(workspace: Workspace) -> str:
    return reverse("settings", args=[workspace.slug])


def test_admins_and_owners_change_name_and_parallelism(
    client_for: ClientFor, workspace: Workspace, admin: User, address: str
) -> None:
    reply = client_for(admin).post(address, {"name": " Laboratory ", "run_parallelism": "16"})
    assert reply.status_code == 302
    workspace.refresh_from_db()
    assert (workspace.name, workspace.run_parallelism) == ("Laboratory", 16)
    entry = AuditEntry.objects.get(action="workspace.changed")
    assert entry.detail == {
        "name": "Laboratory",
        "name_was": "Lab",
        "run_parallelism": 16,
        "run_parallelism_was": 8,
    }


def test_what_is_the_same_leaves_no_entry(client_for: ClientFor, owner: User, address: str) -> None:
    assert client_for(owner).post(address, {"name": "Lab", "run_parallelism": "8"}).status_code == 302
    assert not AuditEntry.objects.filter(action="workspace.changed").exists()


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"run_parallelism": "0"}, "run_parallelism"),
        ({"run_parallelism": "65"}, "run_parallelism"),
        ({"run_parallelism": "many"}, "run_parallelism"),
        ({"run_parallelism": "9" * 40}, "run_parallelism"),
    ],
)
def test_bad_settings_are_said_beside_their_field(
    client_for: ClientFor, owner: User, workspace: Workspace, address: str, form: dict[str, str], field: str
) -> None:
    reply = client_for(owner).post(address, {"name": "Lab", "run_parallelism": "8"} | form)
    assert reply.status_code == 422
    assert list(reply.context["errors"]) == [field]
    workspace.refresh_from_db()
    assert (workspace.name, workspace.run_parallelism) == ("Lab", 8)


def test_members_and_outsiders_change_nothing(
    client_for: ClientFor, member: User, outsider: User, address: str
) -> None:
    for user, status in ((member, 403), (outsider, 404)):
        assert client_for(user).get(address).status_code == status
        assert client_for(user).post(address, {"name": "Mine", "run_parallelism": "1"}).status_code == status


def test_the_operator_makes_workspaces_and_others_where_the_setting_says_so(
    client_for: ClientFor, settings: Any
) -> None:
    staff, anybody = UserFactory(is_staff=True), UserFactory()
    form = {"name": "The Späti & Söhne", "slug": ""}
    reply = client_for(staff).post(NEW, form)
    assert reply["Location"] == "/w/the-spati-sohne/"
    made = Workspace.objects.get(slug="the-spati-sohne")
    assert Membership.objects.get(workspace=made).role == "owner"
    client = client_for(anybody)
    assert client.get(NEW).status_code == client.post(NEW, form).status_code == 403
    assert NEW not in client.get("/").content.decode()
    settings.OPEN_WORKSPACES = True
    assert NEW in client.get("/").content.decode()
    assert client.get(NEW).status_code == 200
    assert client.post(NEW, {"name": "Mine", "slug": "mine"})["Location"] == "/w/mine/"


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"name": "", "slug": "fine"}, "name"),
        ({"name": "Fine", "slug": "Not Fine"}, "slug"),
        ({"name": "Fine", "slug": "lab"}, "slug"),
        ({"name": "数", "slug": ""}, "slug"),
    ],
)
def test_a_bad_name_or_address_makes_nothing(
    client_for: ClientFor, workspace: Workspace, form: dict[str, str], field: str
) -> None:
    reply = client_for(UserFactory(is_staff=True)).post(NEW, form)
    assert reply.status_code == 422
    assert list(reply.context["errors"]) == [field]
    assert Workspace.objects.count() == 1


def test_the_front_door_leads_where_the_person_was_last(
    client_for: ClientFor, workspace: Workspace, other_workspace: Workspace, member: User
) -> None:
    there = MembershipFactory(workspace=other_workspace, user=member)
    client = client_for(member)
    assert client.get("/")["Location"] == "/w/lab/"
    page = client.get("/w/elsewhere/members/").content.decode()
    assert 'href="/w/lab/"' in page
    assert client_for(member).get("/")["Location"] == "/w/elsewhere/"
    there.delete()
    assert client.get("/")["Location"] == "/w/lab/"
