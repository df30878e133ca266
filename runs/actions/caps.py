"""Caps are raised and lowered while a run is going. The supervisor reads them at its next look."""

from __future__ import annotations

import math
from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from console.actions import audit
from console.actions.budgets import CapTooLow, set_cap
from console.actor import Actor
from console.doorbell import ring
from console.models import Membership
from runs import limits
from runs.events import CapChanged, append
from runs.models import Run
from runs.spec import FieldError

from .stop import may_cancel


class MayNotChange(Exception):
    """Only its creator, admins and owners may change a run's caps."""

    def __str__(self) -> str:
        return str(self.__doc__)


class NotGoing(Exception):
    """The run has ended, or is ending: its caps are history."""


class CapsRejected(Exception):
    """A cap that cannot be. Nothing was changed."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(f"{error.field}: {error.message}" for error in errors))
        self.errors = errors


@transaction.atomic
def change_cap(
    run: Run,
    *,
    spend_cap_usd: Decimal | None = None,
    time_cap_minutes: int | None = None,
    actor: Actor,
) -> Run:
    """Put other caps in force; None leaves one as it is. The run's document keeps what was asked at first.

    Raises MayNotChange, NotGoing, or CapsRejected with the lowest possible where a cap is already used that far.
    """
    row = locked(run)
    require_may_change(row, actor)
    if row.is_terminal or row.stop_reason:
        ends = "has already ended" if row.is_terminal else "is ending already"
        raise NotGoing(f"Run #{row.number} {ends}; its caps stay as they are.")
    set_caps(row, spend_cap_usd=spend_cap_usd, time_cap_minutes=time_cap_minutes, actor=actor)
    return row


def locked(run: Run) -> Run:
    row: Run = (
        Run.objects.select_for_update(of=["self"], no_key=True)
        .select_related("workspace", "budget", "template_version__template")
        .get(pk=run.pk)
    )
    return row


def require_may_change(run: Run, actor: Actor, refusal: type[MayNotChange] = MayNotChange) -> None:
    """The rule of who may: as for cancelling."""
    if actor.kind in ("operator", "system"):
        return
    membership = Membership.objects.filter(workspace=run.workspace, user=actor.user).first()
    if membership is None or not may_cancel(run, membership):
        raise refusal


def set_caps(
    run: Run, *, spend_cap_usd: Decimal | None, time_cap_minutes: int | None, actor: Actor
) -> CapChanged | None:
    """Check and write both caps, or none. The caller holds the run's lock. None when nothing differs."""
    if time_cap_minutes == run.time_cap_minutes:
        time_cap_minutes = None
    errors: list[FieldError] = []
    if spend_cap_usd is not None:
        errors += _spend_errors(spend_cap_usd)
    if time_cap_minutes is not None:
        errors += _time_errors(run, time_cap_minutes)
    if errors:
        raise CapsRejected(errors)
    said: dict[str, object] = {}
    if spend_cap_usd is not None:
        try:
            was = set_cap(run.budget, spend_cap_usd)
        except CapTooLow as error:
            raise CapsRejected([FieldError("spend_cap_usd", "below_spent", str(error))]) from error
        if was != spend_cap_usd:
            said |= {"spend_cap_usd": _dollars(spend_cap_usd), "spend_cap_was_usd": _dollars(was)}
    if time_cap_minutes is not None:
        said |= {"time_cap_minutes": time_cap_minutes, "time_cap_was_minutes": run.time_cap_minutes}
        run.time_cap_minutes = time_cap_minutes
        run.save(update_fields=["time_cap_minutes"])
    if not said:
        return None
    event = CapChanged.model_validate({"actor": actor.label, **said})
    append(run, event)
    audit.record(
        workspace=run.workspace,
        actor=actor,
        action="run.cap_changed",
        subject=f"run #{run.number}",
        detail=event.model_dump(mode="json", exclude={"actor"}, exclude_none=True),
    )
    ring("supervisor", f"workspace.{run.workspace.slug}")
    return event


def _dollars(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:.2f}"


def _spend_errors(cap: Decimal) -> list[FieldError]:
    if limits.SPEND_CAP_MIN <= cap <= limits.SPEND_CAP_MAX:
        return []
    words = f"Must be ${limits.SPEND_CAP_MIN} to ${limits.SPEND_CAP_MAX:,}."
    return [FieldError("spend_cap_usd", "out_of_range", words)]


def _time_errors(run: Run, minutes: int) -> list[FieldError]:
    allowed = limits.TIME_CAP_MINUTES
    if not allowed.low <= minutes <= allowed.high:
        words = f"Must be {allowed.low} to {allowed.high:,} minutes."
        return [FieldError("time_cap_minutes", "out_of_range", words)]
    used = run.time_used(timezone.now()) / 60
    lowest = min(allowed.high, math.floor(used) + 1)
    if minutes < lowest:
        words = f"The run has played {math.floor(used):,} min already; {lowest:,} is the lowest possible."
        return [FieldError("time_cap_minutes", "below_used", words)]
    return []
