"""Taking a desktop over from the policy that plays on it: the attempt will have no verdict."""

from __future__ import annotations

from django.db import transaction

from console.actor import Actor
from console.models import Membership
from desktops.actions.views import let_watch
from desktops.models import Computer
from runs.models import Attempt, AttemptTry, Run

from .stop import may_cancel


class CannotTakeOver(Exception):
    """What plays on the desktop has come too far, or is for more than one attempt."""


class MayNotTakeOver(Exception):
    """Only the run's creator, admins and owners may take its desktops over."""


def playing_on(computer: Computer) -> AttemptTry | None:
    """The try that could be taken over: not one that is being verified, nor one that has been taken over already."""
    tries = AttemptTry.objects.select_related("attempt").filter(
        computer=computer, computer__stopped_at=None, ok=None, invalid_reasons=[]
    )
    return tries.filter(attempt__status=Attempt.Status.RUNNING).first()


@transaction.atomic
def take_over(run: Run, computer: Computer, *, actor: Actor) -> str:
    """A ticket to act on it. The attempt ends once its worker has handed the desktop over, not before."""
    membership = Membership.objects.filter(workspace=run.workspace, user=actor.user).first()
    if membership is None or not may_cancel(run, membership):
        raise MayNotTakeOver("Only the run's creator, admins and owners may take its desktops over.")
    if playing_on(computer) is None:
        raise CannotTakeOver(f"Nothing plays on {computer.label} that could be taken over.")
    by_role = run.creator_id != membership.user_id
    return let_watch(computer, drives=True, by_role=by_role, actor=actor)
