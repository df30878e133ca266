"""What a person sets about their own account, beside what signs them in."""

from __future__ import annotations

from django.db import transaction

from console.actor import Actor
from console.models import User

from .audit import record_of_account


@transaction.atomic
def set_run_mail(user: User, *, wanted: bool, actor: Actor) -> None:
    """Whether mail comes when a run that they started has ended. The same again changes nothing."""
    if user.run_mail == wanted:
        return
    user.run_mail = wanted
    user.save(update_fields=["run_mail"])
    record_of_account(user=user, actor=actor, action="account.run_mail", detail={"wanted": wanted})
