"""The page Audit log: for admins and owners, by action, person and day, in pages, and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from console.actions.audit import record
from console.actor import Actor
from console.models import AuditEntry, User, Workspace
from console.pages import audit

ClientFor = Callable[[User], Client]
PASSWORD = "a good long password"


def _do(
    workspace: Workspace, user: User, action: str, subject: str = "something", **detail: Any
) -> AuditEntry:
    return record(
        workspace=workspace, actor=Actor.person(user), action=action, subject=subject, detail=detail
    )


def _shown(client: Client, address: str, **asked: str) -> list[str]:
    return [entry.action for entry, _, _ in client.get(address, asked).context["told"]]


@pytest.fixture
def address(workspace: Workspace) -> str:
    return reverse("audit-log", args=[workspace.slug])


def test_admins_and_owners_read_it_and_members_do_not(
    client_for: ClientFor, owner: User, admin: User, member: User, outsider: User, address: str
) -> None:
    for user, status in ((owner, 200), (admin, 200), (member, 403), (outsider, 404)):
        assert client_for(user).get(address).status_code == status
        assert client_for(user).get(f"{address}audit.csv").status_code == status
    assert address in client_for(admin).get(reverse("member-list", args=["lab"])).content.decode()
    assert address not in client_for(member).get(reverse("member-list", args=["lab"])).content.decode()


def test_another_workspace_s_entries_and_the_platform_s_are_not_here(
    client_for: ClientFor, owner: User, other_workspace: Workspace, outsider: User, address: str
) -> None:
    _do(other_workspace, outsider, "run.created")
    record(workspace=None, actor=Actor.nobody(), action="account.sign_in_failed", subject="x@example.test")
    assert _shown(client_for(owner), address) == ["workspace.created"]


def test_it_is_filtered_by_action_person_and_day(
    client_for: ClientFor, workspace: Workspace, owner: User, member: User, address: str
) -> None:
    _do(workspace, member, "run.created")
    _do(workspace, owner, "run.cancelled")
    old = AuditEntry(
        workspace=workspace, actor_kind="system", actor_label="Deskyard", action="run.created", subject="old"
    )
    old.at = datetime(2026, 1, 31, 23, 59, tzinfo=UTC)
    old.save()
    client = client_for(owner)
    assert _shown(client, address, action="run") == ["run.created", "run.cancelled", "run.created"]
    assert _shown(client, address, action="run.cancelled") == ["run.cancelled"]
    assert _shown(client, address, who=str(member.pk)) == ["run.created"]
    assert _shown(client, address, who="system") == ["run.created"]
    assert _shown(client, address, **{"from": "2026-01-31", "to": "2026-01-31"}) == ["run.created"]
    assert _shown(client, address, to="2026-01-30") == []
    for nonsense in ({"who": "9" * 30}, {"from": "never", "to": "9999-12-31"}, {"before": "x"}):
        assert client.get(address, nonsense).status_code == 200


def test_it_turns_by_pages_without_a_gap(
    client_for: ClientFor,
    workspace: Workspace,
    owner: User,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(audit, "ROWS", 2)
    for number in range(4):
        _do(workspace, owner, f"thing.done_{number}")
    client, seen, query = client_for(owner), [], "?"
    while query:
        page = client.get(address + query).context["page"]
        seen += [entry.action for entry in page.rows]
        query = page.older
    assert seen == ["thing.done_3", "thing.done_2", "thing.done_1", "thing.done_0", "workspace.created"]


def test_the_csv_holds_the_same_and_no_formula(
    client_for: ClientFor, workspace: Workspace, owner: User, address: str
) -> None:
    _do(workspace, owner, "run.created", "=HYPERLINK(1)", name="ä", cap="0.50")
    reply = client_for(owner).get(f"{address}audit.csv", {"action": "run"})
    assert reply["Content-Disposition"].startswith('attachment; filename="audit-lab-')
    rows = list(csv.DictReader(b"".join(reply.streaming_content).decode().splitlines()))
    assert [(row["who"], row["action"], row["subject"], row["detail"]) for row in rows] == [
        ("Olga Owner", "run.created", "'=HYPERLINK(1)", "cap: 0.50; name: ä")
    ]


def test_signing_in_and_failing_to_is_in_the_log(workspace: Workspace, member: User) -> None:
    member.set_password(PASSWORD)
    member.save()
    client, door = Client(), reverse("account_login")
    client.post(door, {"login": member.email, "password": "wrong"})
    client.post(door, {"login": "who@example.test", "password": PASSWORD})
    assert client.post(door, {"login": member.email, "password": PASSWORD}).status_code == 302
    client.post(reverse("account_logout"))
    here = AuditEntry.objects.filter(workspace=workspace, action__startswith="account.").order_by("pk")
    assert list(here.values_list("action", "actor_kind", "via", "ip")) == [
        ("account.sign_in_failed", "nobody", "page", "127.0.0.1"),
        ("account.signed_in", "user", "page", "127.0.0.1"),
        ("account.signed_out", "user", "page", "127.0.0.1"),
    ]
    assert AuditEntry.objects.get(workspace=None).subject == "who@example.test"
    assert not any(PASSWORD in str(entry.__dict__) for entry in AuditEntry.objects.all())


def test_what_deskyard_does_by_itself_is_deskyards(
    workspace: Workspace, owner: User, client_for: ClientFor, address: str
) -> None:
    record(
        workspace=workspace,
        actor=Actor.system("the supervisor"),
        action="computer.closed",
        subject="computer c-0001",
    )
    page = client_for(owner).get(address).content.decode()
    assert '<span class="strong">Deskyard</span>' in page
    assert "supervisor" not in page
