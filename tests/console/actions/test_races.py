"""Two people at the same moment: a link is used once, and a workspace keeps an owner."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from django.db import connection

from console.actions.invitations import InvitationGone, accept_invitation, invite
from console.actions.workspaces import LastOwner, remove_member
from console.actor import Actor
from console.models import Membership, User, Workspace
from tests.factories import MembershipFactory, UserFactory

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(*verbs: Callable[[], object]) -> list[type[Exception] | None]:
    """Each verb in a thread and a connection of its own, begun together; what it raised."""
    ready, ended = threading.Barrier(len(verbs)), []

    def run(verb: Callable[[], object]) -> None:
        try:
            ready.wait(10)
            verb()
            ended.append(None)
        except (InvitationGone, LastOwner) as refused:
            ended.append(type(refused))
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(verb,)) for verb in verbs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return ended


def test_one_link_lets_one_in(workspace: Workspace, owner: User) -> None:
    _, secret = invite(
        workspace=workspace, email="nora@example.test", role="member", actor=Actor.person(owner)
    )
    people = UserFactory.create_batch(3)
    ended = at_once(*(lambda user=user: accept_invitation(secret, user=user) for user in people))
    assert sorted(ended, key=str) == [InvitationGone, InvitationGone, None]
    assert workspace.memberships.filter(user__in=people).count() == 1


def test_the_last_two_owners_cannot_both_leave(workspace: Workspace, owner: User) -> None:
    other = MembershipFactory(workspace=workspace, role=Membership.Role.OWNER)
    mine = Membership.objects.get(workspace=workspace, user=owner)
    ended = at_once(
        lambda: remove_member(mine, actor=Actor.person(owner)),
        lambda: remove_member(other, actor=Actor.person(other.user)),
    )
    assert sorted(ended, key=str) == [LastOwner, None]
    assert workspace.memberships.filter(role=Membership.Role.OWNER).count() == 1
