"""Who may call the API: bearer tokens and browser sessions, each in one workspace."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from console.actions.tokens import revoke_token
from console.actor import Actor
from console.models import Membership, Token, User, Workspace
from tests.factories import MembershipFactory, RunFactory, UserFactory

pytestmark = pytest.mark.django_db
ADDRESS = "/v1/runs"


def code(reply: Any) -> tuple[int, str]:
    assert reply["Content-Type"] == "application/problem+json"
    return reply.status_code, reply.json()["code"]


def test_a_token_reads_its_own_workspace(
    api: Callable[..., APIClient], workspace: Workspace, other_workspace: Workspace
) -> None:
    RunFactory(workspace=workspace, name="ours")
    RunFactory(workspace=other_workspace, name="theirs")
    assert [run["name"] for run in api().get(ADDRESS).json()["results"]] == ["ours"]


def test_a_token_may_name_its_workspace_and_no_other(
    api: Callable[..., APIClient], workspace: Workspace, other_workspace: Workspace
) -> None:
    client = api()
    assert client.get(f"{ADDRESS}?workspace=lab").status_code == 200
    assert code(client.get(f"{ADDRESS}?workspace=elsewhere")) == (403, "other_workspace")
    assert code(client.get(f"{ADDRESS}?workspace=nowhere")) == (403, "other_workspace")


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "Bearer dy_nonsense", "bearer a b", "Bearer ä\udcff"]
)
def test_what_is_no_token_is_a_401(header: str, db: None) -> None:
    reply = APIClient().get(ADDRESS, HTTP_AUTHORIZATION=header)
    assert code(reply) == (401, "token_unknown")
    assert reply["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("header", [None, "", "Basic b2xnYTpvbGdh", "Token dy_x"])
def test_another_scheme_is_as_good_as_none(header: str | None, db: None) -> None:
    headers = {} if header is None else {"HTTP_AUTHORIZATION": header}
    assert code(APIClient().get(ADDRESS, **headers)) == (401, "not_authenticated")


def test_an_expired_token_is_refused_and_kept(api: Callable[..., APIClient]) -> None:
    client = api()
    Token.objects.update(expiry=timezone.now() - timedelta(seconds=1))
    assert code(client.get(ADDRESS)) == (401, "token_expired")
    assert Token.objects.count() == 1


def test_a_revoked_token_is_refused_and_kept(api: Callable[..., APIClient], owner: User) -> None:
    client = api()
    revoke_token(Token.objects.get(), actor=Actor.person(owner))
    assert code(client.get(ADDRESS)) == (401, "token_revoked")
    assert Token.objects.count() == 1


def test_the_token_of_somebody_who_left_is_refused(api: Callable[..., APIClient], member: User) -> None:
    client = api(user=member)
    Membership.objects.filter(user=member).delete()
    assert code(client.get(ADDRESS)) == (401, "token_orphaned")


def test_the_token_of_somebody_switched_off_is_refused(api: Callable[..., APIClient], member: User) -> None:
    client = api(user=member)
    User.objects.filter(pk=member.pk).update(is_active=False)
    assert code(client.get(ADDRESS)) == (401, "token_orphaned")


def test_use_is_noted_at_most_once_a_minute(
    api: Callable[..., APIClient], django_assert_num_queries: Any
) -> None:
    client = api()
    client.get(ADDRESS)
    first = Token.objects.get().last_used_at
    assert first is not None
    client.get(ADDRESS)
    assert Token.objects.get().last_used_at == first
    Token.objects.update(last_used_at=timezone.now() - timedelta(minutes=2))
    client.get(ADDRESS)
    assert Token.objects.get().last_used_at >= first


def test_a_workers_token_can_do_nothing_else(api: Callable[..., APIClient]) -> None:
    client = api("workers:connect")
    for address in (ADDRESS, "/v1/workers", "/v1/templates", "/v1/task_sets", f"/v1/blobs/{'0' * 64}"):
        assert code(client.get(address)) == (403, "scope_missing")
    assert code(client.post(ADDRESS, {})) == (403, "scope_missing")


def test_a_session_reads_the_workspace_it_names(
    client_for: Callable[[User], Client], workspace: Workspace, other_workspace: Workspace, owner: User
) -> None:
    MembershipFactory(workspace=other_workspace, user=owner)
    RunFactory(workspace=other_workspace, name="theirs")
    client = client_for(owner)
    assert client.get(f"{ADDRESS}?workspace=elsewhere").json()["results"][0]["name"] == "theirs"
    assert client.get(f"{ADDRESS}?workspace=lab").json()["results"] == []
    assert code(client.get(ADDRESS)) == (403, "workspace_not_named")


def test_whoever_is_in_one_workspace_need_not_name_it(
    client_for: Callable[[User], Client], workspace: Workspace, member: User
) -> None:
    assert client_for(member).get(ADDRESS).status_code == 200


def test_a_session_sees_a_strange_workspace_as_absent(
    client_for: Callable[[User], Client], workspace: Workspace, outsider: User, other_workspace: Workspace
) -> None:
    client = client_for(outsider)
    assert code(client.get(f"{ADDRESS}?workspace=lab")) == (404, "not_found")
    assert code(client.get(f"{ADDRESS}?workspace=nowhere")) == (404, "not_found")
    assert code(client.get(f"{ADDRESS}?workspace=%00")) == (404, "not_found")


def test_whoever_is_in_no_workspace_is_told_so(client_for: Callable[[User], Client]) -> None:
    assert code(client_for(UserFactory()).get(ADDRESS)) == (403, "workspace_not_named")


def test_a_session_is_no_worker(
    client_for: Callable[[User], Client], workspace: Workspace, owner: User
) -> None:
    assert client_for(owner).put(f"/v1/worker/blobs/{'0' * 64}").status_code == 401
