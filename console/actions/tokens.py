"""API tokens: made once, shown once, revoked for good."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from decimal import Decimal

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actor import Actor
from console.doorbell import ring
from console.models import Budget, Scope, Token, User, Workspace
from console.names import SENTENCE, is_one_line

from .audit import record
from .budgets import CENT, MOST, open_budget
from .workspaces import NotAllowed, require_manager

NAME_LENGTH = 100
CEILING = "The spend ceiling of the token"  # how a run's stop detail begins that ended for it
SPENDING = {Scope.RUNS_WRITE, Scope.EVALUATIONS_WRITE, Scope.COMPUTERS_WRITE}


def _check(
    name: str, scopes: Collection[str], expires_in: timedelta | None, spend_ceiling: Decimal | None
) -> None:
    errors = {}
    if not name:
        errors["name"] = "Give the token a name, such as where it will be used."
    elif len(name) > NAME_LENGTH:
        errors["name"] = f"At most {NAME_LENGTH} characters."
    elif not is_one_line(name):
        errors["name"] = SENTENCE
    unknown = sorted(set(scopes) - set(Scope.values))
    if not scopes:
        errors["scopes"] = "Choose at least one scope."
    elif unknown:
        errors["scopes"] = f"Unknown scope: {', '.join(unknown)}."
    elif Scope.WORKERS_CONNECT in scopes and len(set(scopes)) > 1:
        errors["scopes"] = "workers:connect stands alone: a worker host's token can do nothing else."
    if expires_in is not None and expires_in <= timedelta():
        errors["expires_in"] = "The expiry must lie ahead."
    if spend_ceiling is not None and not CENT <= spend_ceiling <= MOST:
        errors["spend_ceiling"] = f"From ${CENT} to ${MOST:,}."
    elif spend_ceiling is not None and not SPENDING & set(scopes):
        errors["spend_ceiling"] = "None of these scopes can spend; leave it empty."
    if errors:
        raise ValidationError(errors)


@transaction.atomic
def issue_token(
    *,
    workspace: Workspace,
    user: User,
    name: str,
    scopes: Collection[str],
    expires_in: timedelta | None,
    actor: Actor,
    spend_ceiling: Decimal | None = None,
) -> tuple[Token, str]:
    """The token's row and its secret, `dy_…`, which is stored nowhere. expires_in None: never.

    spend_ceiling, dollars: what everything that the token starts may cost together, beside each one's own cap.

    ValidationError by field on bad input; NotAllowed for somebody else's token, or a worker's, by a member.
    """
    name = name.strip()
    _check(name, scopes, expires_in, spend_ceiling)
    if Scope.WORKERS_CONNECT in scopes:
        require_manager(workspace, actor, what="make tokens for worker hosts")
    if actor.user != user:
        require_manager(workspace, actor, what="make tokens for others")
    if not workspace.memberships.filter(user=user).exists():
        raise NotAllowed(f"{user} is not a member of {workspace}.")
    ordered = [scope for scope in Scope.values if scope in scopes]
    try:
        with transaction.atomic():
            token, secret = Token.objects.create(
                user, expires_in, workspace=workspace, name=name, scopes=ordered
            )
    except IntegrityError as error:
        raise ValidationError({"name": f"A live token named “{name}” exists already."}) from error
    if spend_ceiling is not None:
        token.budget = open_budget(workspace=workspace, cap=spend_ceiling)
        token.save(update_fields=["budget"])
    record(
        workspace=workspace,
        actor=actor,
        action="token.issued",
        subject=f"token {name}",
        detail={
            "scopes": ordered,
            "expires": token.expiry.isoformat() if token.expiry else None,
            "for": str(user),
            "spend_ceiling_usd": None if spend_ceiling is None else str(spend_ceiling),
            "begins_with": token.token_key[:7],
        },
    )
    return token, secret


@transaction.atomic
def revoke_token(token: Token, *, actor: Actor) -> Token:
    """Refused from now on; revoking twice changes nothing. NotAllowed for another's token by a member."""
    if actor.user != token.user:
        require_manager(token.workspace, actor, what="revoke the tokens of others")
    revoked = Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())
    token.refresh_from_db()
    if revoked:
        record(
            workspace=token.workspace,
            actor=actor,
            action="token.revoked",
            subject=f"token {token.name}",
            detail={"of": str(token.user), "begins_with": token.token_key[:7]},
        )
        ring(f"workspace.{token.workspace.slug}")
    return token


def name_of_ceiling(budget: Budget) -> str:
    """A sentence on whose ceiling this level of the budget tree is; empty where it is no token's."""
    token = Token.objects.filter(budget=budget).first()
    return f"{CEILING} {token.name} is reached. " if token else ""
