"""Workspaces and who belongs to them. The rules about roles are here; pages, API and commands only call.

Owners and admins manage people; only an owner makes or unmakes an owner; a workspace always keeps one.
Operators (platform staff) and Deskyard itself may do all of it except leave a workspace without an owner.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actor import Actor
from console.doorbell import ring
from console.models import Budget, Membership, Token, User, Workspace

from .audit import record

OWNER = Membership.Role.OWNER


class NotAllowed(Exception):
    """The actor's role does not reach this far. The message is a sentence for them."""


class LastOwner(Exception):
    """A workspace needs at least one owner. Make somebody else an owner first."""

    def __str__(self) -> str:
        return str(self.__doc__)


class AlreadyMember(Exception):
    """This person is a member already. Change their role in the list."""

    def __str__(self) -> str:
        return str(self.__doc__)


def require_manager(workspace: Workspace, actor: Actor, *, what: str) -> Membership | None:
    """The actor's membership if they manage the workspace, None for operator and system; else NotAllowed."""
    if actor.kind in ("operator", "system"):
        return None
    found = Membership.objects.filter(workspace=workspace, user=actor.user)
    membership: Membership | None = found.first()
    if membership is None or not membership.manages:
        raise NotAllowed(f"Only owners and admins may {what}.")
    return membership


def require_owner_for_owners(acting: Membership | None, *roles: str) -> None:
    if acting is not None and OWNER in roles and acting.role != OWNER:
        raise NotAllowed("Only an owner may make, change or remove an owner.")


def require_known_role(role: str) -> None:
    if role not in Membership.Role.values:
        raise ValidationError({"role": f"Unknown role “{role}”."})


def _require_another_owner(membership: Membership) -> None:
    """Call with the workspace's row locked, so that two owners cannot leave at the same moment."""
    owners = Membership.objects.filter(workspace=membership.workspace, role=OWNER)
    if membership.role == OWNER and not owners.exclude(pk=membership.pk).exists():
        raise LastOwner


def may_open_workspaces(user: object) -> bool:
    """The operator may; everybody may where DESKYARD_OPEN_WORKSPACES says so."""
    return isinstance(user, User) and user.is_active and (user.is_staff or settings.OPEN_WORKSPACES)


def open_workspace(*, slug: str, name: str, actor: Actor) -> Workspace:
    """A person makes a workspace and owns it. NotAllowed; ValidationError by field, on a bad or taken slug too."""
    if actor.user is None or actor.kind != "user" or not may_open_workspaces(actor.user):
        raise NotAllowed("Only the operator of this console makes workspaces.")
    return create_workspace(slug=slug, name=name, owner=actor.user, actor=actor)


@transaction.atomic
def change_workspace(workspace: Workspace, *, name: str, run_parallelism: int, actor: Actor) -> Workspace:
    """Its name and how many desktops one run may hold. ValidationError by field; what is the same leaves no entry."""
    require_manager(workspace, actor, what="change the workspace's settings")
    row = Workspace.objects.select_for_update(no_key=True).get(pk=workspace.pk)
    wanted = {"name": name.strip(), "run_parallelism": run_parallelism}
    changed = {field: value for field, value in wanted.items() if getattr(row, field) != value}
    if not changed:
        return row
    detail: dict[str, Any] = {}
    for field, value in changed.items():
        detail[f"{field}_was"], detail[field] = getattr(row, field), value
        setattr(row, field, value)
    row.full_clean()
    row.save(update_fields=list(changed))
    record(
        workspace=row, actor=actor, action="workspace.changed", subject=f"workspace {row.name}", detail=detail
    )
    ring(f"workspace.{row.slug}")
    return row


@transaction.atomic
def create_workspace(*, slug: str, name: str, owner: User, actor: Actor | None = None) -> Workspace:
    """A workspace, its root budget (no cap yet), its first owner. ValidationError on a bad or taken slug.

    Without an actor it is the owner's own deed.
    """
    workspace = Workspace(slug=slug, name=name)
    workspace.full_clean()
    workspace.save()
    Budget.objects.create(workspace=workspace)
    Membership.objects.create(workspace=workspace, user=owner, role=OWNER)
    record(
        workspace=workspace,
        actor=actor or Actor.person(owner),
        action="workspace.created",
        subject=f"workspace {name}",
        detail={"owner": owner.email},
    )
    return workspace


@transaction.atomic
def add_member(workspace: Workspace, *, user: User, role: str, actor: Actor) -> Membership:
    """Add an account at once, without asking its person. People are invited instead: see `invitations`."""
    acting = require_manager(workspace, actor, what="add members")
    require_known_role(role)
    require_owner_for_owners(acting, role)
    membership = join(workspace, user=user, role=role)
    _record("member.added", membership, actor)
    return membership


def join(workspace: Workspace, *, user: User, role: str) -> Membership:
    """The row itself, for verbs that have checked who may. Raises AlreadyMember."""
    try:
        with transaction.atomic():
            membership: Membership = Membership.objects.create(workspace=workspace, user=user, role=role)
    except IntegrityError as error:
        raise AlreadyMember from error
    return membership


@transaction.atomic
def change_role(membership: Membership, *, role: str, actor: Actor) -> Membership:
    acting = require_manager(membership.workspace, actor, what="change roles")
    require_known_role(role)
    membership = _locked(membership)
    require_owner_for_owners(acting, role, membership.role)
    if role == membership.role:
        return membership
    if role != OWNER:
        _require_another_owner(membership)
    was, membership.role = membership.role, role
    membership.save(update_fields=["role"])
    _record("member.role_changed", membership, actor, was=was)
    return membership


@transaction.atomic
def remove_member(membership: Membership, *, actor: Actor) -> None:
    """Remove somebody (or oneself). Their tokens for this workspace are revoked with it."""
    leaving = actor.kind == "user" and actor.user == membership.user
    acting = None if leaving else require_manager(membership.workspace, actor, what="remove members")
    membership = _locked(membership)
    require_owner_for_owners(acting, membership.role)
    _require_another_owner(membership)
    tokens = Token.objects.for_workspace(membership.workspace).filter(user=membership.user, revoked_at=None)
    revoked = tokens.update(revoked_at=timezone.now())
    what = "member.left" if leaving else "member.removed"
    _record(what, membership, actor, tokens_revoked=revoked)
    membership.delete()


def _locked(membership: Membership) -> Membership:
    Workspace.objects.select_for_update(no_key=True).get(pk=membership.workspace_id)
    row: Membership = Membership.objects.select_related("workspace", "user").get(pk=membership.pk)
    return row


def _record(what: str, membership: Membership, actor: Actor, **detail: str | int) -> None:
    record(
        workspace=membership.workspace,
        actor=actor,
        action=what,
        subject=membership.user.email,
        detail={"role": membership.role, **detail},
    )
    ring(f"workspace.{membership.workspace.slug}")
