"""Computers that people and their code open: opened, handed to a worker, used, closed. One verb per change.

A computer is paid ahead like any desktop; whatever happens to it, it ends for one of `Hold.Reason`.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone

from console.actions.audit import record as audit
from console.actions.budgets import BudgetExhausted, affordable, cost_of, open_budget
from console.actions.tokens import name_of_ceiling
from console.actions.workspaces import NotAllowed, require_manager
from console.actor import Actor
from console.doorbell import ring
from console.models import Workspace
from console.spending import cost_by_now
from desktops.models import Ask, Assignment, Computer, Hold, LiveView, State, TemplateVersion, Worker
from desktops.protocol.hold import HoldOrder

from . import lease
from .drafts import drop
from .pins import pin
from .rates import rates_for

KIND: Final = "computer"
S, Reason = Hold.Status, Hold.Reason
SUPERVISOR: Final = Actor.system("the supervisor")
# What had a worker that could start it and has none for this long will not get one by waiting.
NO_WORKER: Final = timedelta(seconds=settings.NO_WORKER_SECONDS)


class NotReady(Exception):
    """The computer cannot be asked for this now; the message says why."""


@transaction.atomic
def open_computer(
    *,
    workspace: Workspace,
    template_version: TemplateVersion,
    state: State | None = None,
    idle_minutes: int,
    max_minutes: int,
    spend_cap: Decimal,
    actor: Actor,
) -> Hold:
    """Ask for a desktop of a published version, or of a saved one. The supervisor hands it to a worker."""
    hold = Hold.objects.create(
        workspace=workspace,
        template_version=template_version,
        state=state,
        budget=open_budget(workspace=workspace, cap=spend_cap, under=actor.budget),
        idle_minutes=idle_minutes,
        max_minutes=max_minutes,
        opened_by=actor.user,
        opened_via=actor.label[:120],
    )
    audit(
        workspace=workspace,
        actor=actor,
        action="computer.opened",
        subject=f"computer on {state or template_version}",
        detail={
            "spend_cap_usd": f"{spend_cap:.2f}",
            "idle_minutes": idle_minutes,
            "max_minutes": max_minutes,
        },
    )
    ring("supervisor", f"workspace.{workspace.slug}")
    return hold


@transaction.atomic
def close_computer(hold: Hold, *, actor: Actor) -> Hold:
    """End it now. Closing one that is closing, or has ended, changes nothing. Raises NotAllowed."""
    row = locked(hold.pk)
    require_may_use(row, actor, what="close it")
    if row.status in (S.WAITING, S.STARTING, S.READY):
        close(row, Reason.CLOSED_BY_USER, detail=f"Closed by {actor.label}.", actor=actor)
    return row


def require_may_use(hold: Hold, actor: Actor, *, what: str) -> None:
    """For who opened it, and for who manages the workspace. Raises NotAllowed."""
    if actor.user is not None and actor.user.pk == hold.opened_by_id:
        return
    try:
        require_manager(hold.workspace, actor, what=what)
    except NotAllowed as error:
        raise NotAllowed(f"Only who opened this computer, admins and owners may {what}.") from error


def started(hold: Hold, computer: Computer | None) -> None:
    """Its desktop exists. The caller holds the lock."""
    hold.computer = computer
    hold.save(update_fields=["computer"])


def ready(hold: Hold) -> None:
    """It can be used, unless it is to be closed already. The caller holds the lock."""
    now = timezone.now()
    if hold.status == S.STARTING:
        hold.status, hold.last_used_at = S.READY, now
        hold.save(update_fields=["status", "last_used_at"])
    ring(f"workspace.{hold.workspace.slug}")


def seen(hold: Hold, screenshot: str) -> None:
    """Its screen, as it was when it was saved; empty where there is no picture."""
    if screenshot:
        Computer.objects.filter(hold=hold).update(last_screenshot=screenshot)


def used(hold: Hold) -> None:
    """Somebody did something with it: it is not idle."""
    Hold.objects.filter(pk=hold.pk, status=S.READY).update(last_used_at=timezone.now())


def close(hold: Hold, reason: str, *, detail: str = "", actor: Actor = SUPERVISOR) -> None:
    """Write why it ends and have its worker end it. The caller holds the row's lock."""
    hold.stop_reason, hold.detail = reason, detail
    if hold.assignment is None:
        end(hold, at=timezone.now(), actor=actor)
        return
    hold.status = S.CLOSING
    hold.save(update_fields=["status", "stop_reason", "detail"])
    lease.stop(hold.assignment, reason=reason)
    audit(
        workspace=hold.workspace,
        actor=actor,
        action="computer.closed",
        subject=f"computer {hold}",
        detail={"reason": hold.get_stop_reason_display()},
    )
    ring("supervisor", f"workspace.{hold.workspace.slug}")


def end(hold: Hold, *, at: datetime, reason: str = "", detail: str = "", actor: Actor = SUPERVISOR) -> None:
    """It is over. The first reason stands: `reason` counts where none is written yet. The caller holds the lock.

    One that is over already stays as it is.
    """
    if not hold.is_live:
        return
    told = bool(hold.stop_reason) and hold.assignment is not None
    hold.stop_reason = hold.stop_reason or reason
    hold.detail = hold.detail or detail
    hold.status = S.CLOSED if hold.stop_reason in Hold.MEANT else S.FAILED
    hold.ended_at = at
    hold.save(update_fields=["status", "stop_reason", "detail", "ended_at"])
    _give_up(hold, at)
    if not told:
        audit(
            workspace=hold.workspace,
            actor=actor,
            action="computer.closed" if hold.status == S.CLOSED else "computer.failed",
            subject=f"computer {hold}",
            detail={"reason": hold.get_stop_reason_display()}
            | ({"message": hold.detail} if hold.detail else {}),
        )
    ring("supervisor", f"workspace.{hold.workspace.slug}")


def _give_up(hold: Hold, at: datetime) -> None:
    """What it was asked and has not answered will not be done."""
    asked = hold.asks.filter(status=Ask.Status.ASKED)
    drafts = [ask.template_version for ask in asked.select_related("template_version__template")]
    asked.update(status=Ask.Status.FAILED, error="The computer ended before it was done.", answered_at=at)
    for draft in drafts:
        if draft is not None:
            drop(draft)


def cost_so_far(hold: Hold) -> Decimal:
    """Of its desktop, by now while it is there. With budget, assignment and computer loaded: no query."""
    budget, computer = hold.budget, hold.computer
    if computer is None or hold.assignment is None or computer.stopped_at is not None:
        return budget.spent
    cost = cost_by_now(computer.started_at, hold.assignment.rate_usd_per_hour, timezone.now())
    return min(cost, budget.reserved)


def out_of_money(hold: Hold) -> tuple[str, str]:
    """Why its desktop was paid no longer: the reason, and a sentence where there is more to say."""
    left, tightest = affordable(hold.budget)
    assert hold.assignment is not None
    slice_ = cost_of(Decimal(lease.SLICE.seconds), hold.assignment.rate_usd_per_hour)
    if left is None or tightest is None or left >= slice_:
        return (
            Reason.CONSOLE_AWAY,
            "The console was away, and the time that its desktop was paid for ran out.",
        )
    return _exhausted(BudgetExhausted(tightest, left))


def _exhausted(error: BudgetExhausted) -> tuple[str, str]:
    whole = error.budget.parent_id is None
    reason = Reason.WORKSPACE_BUDGET_EXCEEDED if whole else Reason.BUDGET_EXCEEDED
    left = f"${error.left:.4f} left is too little for a desktop."
    return reason, f"{name_of_ceiling(error.budget)}{left}"


# ── the supervisor's pass ─────────────────────────────────────────────────────────────────────────────────────────


def open_now() -> QuerySet[Hold, uuid.UUID]:
    """Ids of those to look after, those first that have waited longest."""
    return Hold.objects.live().order_by("created_at").values_list("pk", flat=True)


@transaction.atomic
def look_after(pk: uuid.UUID) -> None:
    """Take what step is due: hand it to a worker, pay it ahead, or close it at one of its limits."""
    row = _locked(Hold.objects.filter(pk=pk), skip_locked=True).first()
    if row is None or row.status not in (S.WAITING, S.STARTING, S.READY):
        return  # somebody is at it, or its worker's last word is awaited
    if row.status == S.WAITING:
        _hand_out(row)
        return
    assert row.assignment is not None
    assert row.closes_at is not None
    now = timezone.now()
    busy = row.asks.filter(status=Ask.Status.ASKED).exists()
    if row.closes_at <= now:
        close(row, Reason.TIME_LIMIT)
    elif row.idle_at is not None and row.idle_at <= now and not busy:
        if LiveView.objects.open().filter(computer=row.computer, drives=True).exists():
            used(row)  # by hand; whoever does nothing for a while has let go
        else:
            close(row, Reason.IDLE)
    else:
        _pay_ahead(row.assignment)


def _pay_ahead(assignment: Assignment) -> None:
    """What nothing is left to pay with ends by itself at its paid time, and its worker then says so. One whose worker
    is quiet is left as it is."""
    live = Assignment.objects.select_for_update(of=("self",), no_key=True)
    row = live.select_related("budget").get(pk=assignment.pk)
    if row.status in Assignment.LIVE and not row.is_quiet:
        try:
            lease.extend(row)
        except BudgetExhausted:
            return


def _hand_out(hold: Hold) -> None:
    # Locked, so that nobody lets it go between this look and the offer.
    state = State.objects.select_for_update(no_key=True, of=("self",)).filter(pk=hold.state_id).first()
    if state is not None and state.status != State.Status.HELD:
        end(hold, at=timezone.now(), reason=Reason.START_FAILED, detail=f"{hold.state} has been deleted.")
        return
    worker = _host(hold)
    if worker is None:
        if _no_worker(hold):
            what = "the saved desktop" if hold.state else f"{hold.template_version}"
            detail = f"No connected worker has {what}."
            end(hold, at=timezone.now(), reason=Reason.NO_WORKER, detail=detail)
        return
    order = HoldOrder(
        hold_id=str(hold.pk),
        template=pin(hold.template_version),
        state=hold.state.name if hold.state else "",
    )
    try:
        hold.assignment = lease.offer(
            worker=worker,
            kind=KIND,
            subject=hold.pk,
            epoch=1,
            payload=order.model_dump(mode="json"),
            budget=hold.budget,
            rate_usd_per_hour=rates_for(hold.template_version, [worker])[worker.pk],
        )
    except BudgetExhausted as error:
        reason, detail = _exhausted(error)
        end(hold, at=timezone.now(), reason=reason, detail=detail)
        return
    hold.status, hold.started_at = S.STARTING, timezone.now()
    hold.save(update_fields=["assignment", "status", "started_at"])
    ring(f"workspace.{hold.workspace.slug}")


def _able(hold: Hold, workers: QuerySet[Worker]) -> list[Worker]:
    """Those that have what it starts from."""
    if hold.state is not None:
        workers = workers.filter(pk=hold.state.worker_id)
    version = hold.template_version
    return [worker for worker in workers if worker.has_image(version.template.name, version.digest)]


def _host(hold: Hold) -> Worker | None:
    """The able worker with most free slots."""
    held = Count("assignments", filter=Q(assignments__status__in=Assignment.LIVE))
    connected = Worker.objects.for_workspace(hold.workspace).filter(paused=False).connected()
    free = connected.annotate(free=F("slots") - held).filter(free__gt=0)
    return max(_able(hold, free), key=lambda worker: int(worker.free), default=None)  # type: ignore[attr-defined]


def _no_worker(hold: Hold) -> bool:
    """Whether nobody who could start it was heard of for as long as it is worth to wait."""
    workers = _able(hold, Worker.objects.for_workspace(hold.workspace))
    if any(worker.is_connected for worker in workers):
        return False
    heard = [worker.last_seen_at for worker in workers if worker.last_seen_at]
    return max([hold.created_at, *heard]) < timezone.now() - NO_WORKER


def wanted_by_holds(states: Collection[State]) -> dict[uuid.UUID, str]:
    """Of these states, those that a computer waits to start from."""
    waiting = Hold.objects.filter(state__in=states, status=S.WAITING).values_list("state", flat=True)
    return dict.fromkeys(waiting, "a computer that waits to start from it")


def rows() -> QuerySet[Hold]:
    """With all that shows one."""
    return Hold.objects.select_related(
        "workspace",
        "budget",
        "template_version__template",
        "state__worker",
        "assignment__worker",
        "computer",
    )


def _locked(held: QuerySet[Hold], *, skip_locked: bool = False) -> QuerySet[Hold]:
    """They, locked, and only then read with what they point to: of a row that was waited for PostgreSQL gives what it
    is now, but joined with what it pointed to before."""
    locking = held.select_for_update(no_key=True, skip_locked=skip_locked).order_by("pk")
    return rows().filter(pk__in=list(locking.values_list("pk", flat=True))).order_by("pk")


def locked(pk: uuid.UUID) -> Hold:
    return _locked(Hold.objects.filter(pk=pk)).get()


def locked_of(assignments: Collection[uuid.UUID]) -> list[Hold]:
    """With what they were asked, in one order."""
    held = _locked(Hold.objects.filter(assignment__in=assignments))
    return list(held.prefetch_related("asks__template_version__template"))
