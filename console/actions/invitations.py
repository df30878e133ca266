"""Invitations: made, renewed and revoked by those who manage a workspace, used once by whoever has the link.

The rules about roles are those of `workspaces`: only an owner invites an owner, and a link does no more than whoever
made it may still do when it is used.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from smtplib import SMTPException

from allauth.account.models import EmailAddress
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.template.loader import render_to_string
from django.utils import timezone

from console.actor import Actor
from console.doorbell import ring
from console.models import Invitation, Membership, User, Workspace
from console.models.invitation import LIFETIME

from .audit import record
from .workspaces import (
    AlreadyMember,
    join,
    require_known_role,
    require_manager,
    require_owner_for_owners,
)

log = logging.getLogger(__name__)


class InvitationGone(Exception):
    """This invitation was used, revoked, renewed or has expired. Ask whoever sent it for a new one."""

    def __str__(self) -> str:
        return str(self.__doc__)


class HasAccount(Exception):
    """There is an account with this e-mail already. Sign in with it, then open the link again."""

    def __str__(self) -> str:
        return str(self.__doc__)


def _new_secret() -> tuple[str, str]:
    secret = secrets.token_urlsafe(32)
    return secret, _digest(secret)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def find_invitation(secret: str) -> Invitation | None:
    """The invitation of this link while it can be used, else None."""
    found = (
        Invitation.objects.select_related("workspace", "invited_by").filter(digest=_digest(secret)).first()
    )
    return found if found is not None and found.is_live and is_backed(found) else None


def is_backed(invitation: Invitation) -> bool:
    """Whether whoever made it may still invite somebody to this role."""
    if invitation.invited_by is None:
        return True
    membership = invitation.workspace.memberships.filter(user=invitation.invited_by).first()
    if membership is None or not membership.manages:
        return False
    return invitation.role != Membership.Role.OWNER or membership.role == Membership.Role.OWNER


@transaction.atomic
def invite(*, workspace: Workspace, email: str, role: str, actor: Actor) -> tuple[Invitation, str]:
    """The invitation and its secret, which is kept nowhere.

    ValidationError by field on bad input, an e-mail with a pending invitation included; AlreadyMember; NotAllowed.
    """
    acting = require_manager(workspace, actor, what="invite people")
    email = email.strip().lower()
    try:
        validate_email(email)
    except ValidationError as error:
        raise ValidationError({"email": "This is not an e-mail address."}) from error
    require_known_role(role)
    require_owner_for_owners(acting, role)
    if workspace.memberships.filter(user__email__iexact=email).exists():
        raise AlreadyMember
    secret, digest = _new_secret()
    try:
        with transaction.atomic():
            invitation = Invitation.objects.create(
                workspace=workspace,
                email=email,
                role=role,
                digest=digest,
                invited_by=actor.user if actor.kind in ("user", "token") else None,
                expires_at=timezone.now() + LIFETIME,
            )
    except IntegrityError as error:
        raise ValidationError({"email": "They are invited already. Renew the link in the list."}) from error
    _record("invitation.sent", invitation, actor)
    return invitation, secret


@transaction.atomic
def renew_invitation(invitation: Invitation, *, actor: Actor) -> tuple[Invitation, str]:
    """A new link for seven more days, of which the actor is the maker; the old one is refused from now on."""
    acting = require_manager(invitation.workspace, actor, what="renew invitations")
    row = _locked(invitation)
    require_owner_for_owners(acting, row.role)
    secret, row.digest = _new_secret()
    row.expires_at = timezone.now() + LIFETIME
    row.invited_by = actor.user if actor.kind in ("user", "token") else None
    row.save(update_fields=["digest", "expires_at", "invited_by"])
    _record("invitation.renewed", row, actor)
    return row, secret


@transaction.atomic
def revoke_invitation(invitation: Invitation, *, actor: Actor) -> None:
    """Its link is refused from now on. InvitationGone if it was used meanwhile."""
    require_manager(invitation.workspace, actor, what="revoke invitations")
    row = _locked(invitation)
    row.revoked_at = timezone.now()
    row.save(update_fields=["revoked_at"])
    _record("invitation.revoked", row, actor)


@transaction.atomic
def accept_invitation(secret: str, *, user: User) -> Membership:
    """Whoever holds the link joins with the account they chose. InvitationGone, AlreadyMember (the link stays good)."""
    found = find_invitation(secret)
    if found is None:
        raise InvitationGone
    row = _locked(found)
    if not row.is_live or row.digest != found.digest:
        raise InvitationGone
    membership = join(row.workspace, user=user, role=row.role)
    row.accepted_at, row.accepted_by = timezone.now(), user
    row.save(update_fields=["accepted_at", "accepted_by"])
    _record("invitation.accepted", row, Actor.person(user), account=user.email)
    return membership


@transaction.atomic
def accept_as_new(secret: str, *, name: str, password: str) -> User:
    """An account for the invited e-mail, and its membership. The link reached that e-mail, so it counts as verified.

    InvitationGone; HasAccount; ValidationError by field.
    """
    found = find_invitation(secret)
    if found is None:
        raise InvitationGone
    if User.objects.filter(email__iexact=found.email).exists():
        raise HasAccount
    name = name.strip()
    if not name or len(name) > 100:
        raise ValidationError({"name": "Say what to call you." if not name else "At most 100 characters."})
    try:
        validate_password(password, User(email=found.email, name=name))
    except ValidationError as error:
        raise ValidationError({"password": error.messages}) from error
    try:
        with transaction.atomic():
            user = User.objects.create_user(found.email, password, name=name)
    except IntegrityError as error:  # the same link, sent twice at the same moment
        raise HasAccount from error
    EmailAddress.objects.create(user=user, email=found.email, primary=True, verified=True)
    accept_invitation(secret, user=user)
    return user


def mail_invitation(invitation: Invitation, link: str) -> bool:
    """Send the link; False where no mail server is set or it did not take the mail.

    Not in a transaction: a mail server takes its time.
    """
    if not settings.EMAIL_HOST:
        return False
    context = {"invitation": invitation, "link": link}
    try:
        send_mail(
            f"Join {invitation.workspace.name} on Deskyard",
            render_to_string("workspace/invitation_mail.txt", context),
            None,
            [invitation.email],
        )
    except (SMTPException, OSError):
        log.exception("the invitation of %r could not be sent", invitation.email)
        return False
    return True


def _locked(invitation: Invitation) -> Invitation:
    """The pending invitation, locked. InvitationGone if it is that no longer."""
    rows = Invitation.objects.pending().select_for_update(of=["self"], no_key=True)
    row: Invitation | None = rows.select_related("workspace").filter(pk=invitation.pk).first()
    if row is None:
        raise InvitationGone
    return row


def _record(what: str, invitation: Invitation, actor: Actor, **detail: str) -> None:
    record(
        workspace=invitation.workspace,
        actor=actor,
        action=what,
        subject=invitation.email,
        detail={"role": invitation.role, **detail},
    )
    ring(f"workspace.{invitation.workspace.slug}")
