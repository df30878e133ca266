"""Saved desktops: what workers say they have, what is still wanted of it, and what they shall forget.

A worker makes room among `warm-…` and `setup-…` by itself. Whatever else it keeps leaves on the console's word only: a
state that nobody wants is `leaving`, its worker is told so, and it is `gone` once the worker names it no longer.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import F, Q, Value
from django.db.models.functions import Greatest
from django.utils import timezone

from console.actions.audit import record as audit
from console.actions.workspaces import require_manager
from console.actor import Actor
from console.doorbell import ring
from desktops.models import Assignment, Computer, State, TemplateVersion, Worker
from desktops.protocol.attempt import StateSaved
from desktops.protocol.messages import LEASE_SECONDS, HeldState

Status, Origin = State.Status, State.Origin

# A worker may name a state before the record that tells of it has come; whoever it is for says so within this time.
UNCLAIMED: Final = timedelta(minutes=10)
# A heartbeat may have been written before the state was saved and be read after.
SETTLING: Final = timedelta(seconds=LEASE_SECONDS)
EXPIRE_AT_ONCE: Final = 200  # states a pass

# Of these states, those that something of its own still needs, with what that is in words ("run #12, which …").
Keeper = Callable[[Collection[State]], Mapping[uuid.UUID, str]]
_keepers: list[Keeper] = []


class NotKept(Exception):
    """It cannot be kept longer; the message says why."""


class StateNeeded(Exception):
    """Something still needs the state; the message says what."""


def keep_while(keeper: Keeper) -> None:
    """Register who is asked, before a state is let go, whether it is still needed. Once a process, at its start."""
    if keeper not in _keepers:
        _keepers.append(keeper)


def origin_of(name: str) -> State.Origin | None:
    """By the name's first part; None for a name that is not of our making."""
    first = name.partition("-")[0]
    return Origin(first) if first in Origin.values else None


def state_saved(
    assignment: Assignment,
    computer: Computer | None,
    record: StateSaved,
    *,
    label: str = "",
    keep_days: int | None = None,
) -> State:
    """Store what a worker has saved. Told twice, it is one row. Raises ValueError for a name that is not ours."""
    origin = origin_of(record.name)
    if origin is None:
        raise ValueError(f"A saved desktop cannot be named {record.name!r}.")
    parent = State.objects.filter(worker=assignment.worker_id, name=record.parent).first()
    attested, now = record.attestation, timezone.now()
    state, _ = State.objects.update_or_create(
        worker=assignment.worker,
        name=record.name,
        defaults={
            "workspace": assignment.workspace,
            "origin": origin,
            "status": Status.HELD,
            "digest": record.digest,
            "size_bytes": record.size_bytes,
            "template_version_id": computer.template_version_id if computer else None,
            "parent": parent,
            "computer_id": computer.pk if computer else None,
            "label": label[:200],
            "screenshot": attested.screenshot if attested else "",
            "attestation": attested.model_dump(mode="json") if attested else None,
            "made_at": now,  # the worker's clock may be off, and `SETTLING` goes by it
            "keep_days": keep_days,
            "expires_at": now + timedelta(days=keep_days) if keep_days else None,
        },
    )
    return state


def started_from(worker: uuid.UUID, name: str, *, times: int, at: datetime) -> None:
    """So many desktops were started from it, the last of them then."""
    rows = State.objects.filter(worker=worker, name=name)
    rows.update(uses=F("uses") + times, used_at=Greatest("used_at", Value(at)))
    for row in rows.held().filter(keep_days__isnull=False).select_for_update(no_key=True):
        row.expires_at = max(row.expires_at or at, at + timedelta(days=row.keep_days or 0))
        row.save(update_fields=["expires_at"])


@transaction.atomic
def reconcile(worker: Worker, held: Iterable[HeldState], *, limit_mb: int = 0) -> None:
    """Bring the worker's rows in line with all that it says it has.

    Five statements at most, however many there are. Names that are not of our making are left to the worker.
    """
    named = {state.name: state for state in held if origin_of(state.name) is not None}
    now = timezone.now()
    rows = State.objects.select_for_update(no_key=True).filter(worker=worker).order_by("pk")
    known = {row.name: row for row in rows.filter(~Q(status=Status.GONE) | Q(name__in=named))}
    changed = [row for name, row in known.items() if _follow(row, named.get(name), now)]
    if changed:
        State.objects.bulk_update(
            changed, ["status", "digest", "size_bytes", "used_at", "made_at", "expires_at"]
        )
    if unknown := [state for name, state in named.items() if name not in known]:
        _take_in(worker, unknown, now)
    total = sum(state.size_bytes for state in named.values())
    facts = {"states_bytes": total, "states_limit_mb": limit_mb}
    Worker.objects.filter(pk=worker.pk).exclude(**facts).update(**facts)


def _follow(row: State, said: HeldState | None, now: datetime) -> bool:
    """Whether the row is another one now."""
    before = (row.status, row.digest, row.size_bytes, row.used_at)
    if said is None:
        if row.status == Status.LEAVING or row.made_at < now - SETTLING:
            row.status = Status.GONE
    else:
        if row.status == Status.GONE:
            row.status = Status.HELD  # made again, or found again; what had been let go has expired
            if row.origin in State.REMADE:
                row.made_at, row.expires_at = min(said.made_at or now, now), None
        row.digest, row.size_bytes = said.digest, said.size_bytes
        if said.used_at and (row.used_at is None or said.used_at > row.used_at):
            row.used_at = min(said.used_at, now)
    return before != (row.status, row.digest, row.size_bytes, row.used_at)


def _take_in(worker: Worker, unknown: Collection[HeldState], now: datetime) -> None:
    """Rows of what no record has told of yet. What no one claims in time expires."""
    images = {state.image for state in unknown if state.image}
    versions = TemplateVersion.objects.filter(template__workspace=worker.workspace_id, digest__in=images)
    by_digest = {version.digest: version for version in versions.select_related("template")}
    rows = []
    for state in unknown:
        origin, version = origin_of(state.name), by_digest.get(state.image)
        assert origin is not None
        rows.append(
            State(
                workspace_id=worker.workspace_id,
                worker=worker,
                name=state.name,
                origin=origin,
                digest=state.digest,
                size_bytes=state.size_bytes,
                template_version=version,
                label=f"Ready desktop of {version}" if version and origin == Origin.WARM else "",
                made_at=min(state.made_at or now, now),
                used_at=min(state.used_at, now) if state.used_at else None,
                expires_at=None if origin in State.REMADE else now + UNCLAIMED,
            )
        )
    State.objects.bulk_create(rows, ignore_conflicts=True)


def to_forget(worker: Worker) -> list[str]:
    """Names of what the worker shall forget."""
    leaving = State.objects.filter(worker=worker, status=Status.LEAVING)
    return list(leaving.order_by("name").values_list("name", flat=True))


def needed(states: Collection[State]) -> dict[uuid.UUID, str]:
    """Of these states, those that cannot go now, with what needs them in words. A query, and what the keepers ask."""
    if not states:
        return {}
    live = Assignment.objects.live().filter(worker__in={state.worker_id for state in states})
    named: Counter[tuple[uuid.UUID, str]] = Counter()
    for worker, *names in live.values_list(
        "worker_id", "payload__setup_state", "payload__fork__state", "payload__state"
    ):
        named.update({(worker, name) for name in names if name})
    found = {}
    for state in states:
        if playing := named[state.worker_id, state.name]:
            what = "a desktop that is" if playing == 1 else f"{playing} desktops that are"
            found[state.pk] = f"{what} being played with it"
    for keeper in _keepers:
        found = {**keeper(states), **found}
    return found


@transaction.atomic
def let_go(state: State, *, actor: Actor) -> State:
    """Have it deleted. Letting go twice is no error. Raises NotAllowed; StateNeeded, which says what needs it."""
    require_manager(state.workspace, actor, what="delete saved desktops")
    row: State = State.objects.select_for_update(no_key=True, of=("self",)).get(pk=state.pk)
    if row.status != Status.HELD:
        return row
    if what := needed([row]).get(row.pk):
        raise StateNeeded(f"It is needed by {what}. It can be deleted once that has ended.")
    no_longer_wanted([row])
    row.status = Status.LEAVING
    subject = f"saved desktop {row}"
    detail = {"name": row.name, "worker": row.worker.name}
    audit(workspace=row.workspace, actor=actor, action="state.deleted", subject=subject, detail=detail)
    return row


@transaction.atomic
def keep(state: State, *, days: int, actor: Actor) -> State:
    """Have what a person has saved stay so many days from now, and from each later use. Raises NotKept."""
    row: State = State.objects.select_for_update(no_key=True, of=("self",)).get(pk=state.pk)
    if row.origin != Origin.SAVED:
        raise NotKept("Only what a person has saved is kept for days; this one goes when nothing needs it.")
    if row.status != Status.HELD:
        raise NotKept("This saved desktop has been deleted.")
    until = timezone.now() + timedelta(days=days)
    if row.expires_at and until < row.expires_at:
        raise NotKept("It stays longer than that already. To have it go sooner, delete it.")
    row.keep_days, row.expires_at = max(days, row.keep_days or 0), until
    row.save(update_fields=["keep_days", "expires_at"])
    subject, detail = f"saved desktop {row}", {"name": row.name, "keep_days": days}
    audit(workspace=row.workspace, actor=actor, action="state.kept", subject=subject, detail=detail)
    return row


@transaction.atomic
def no_longer_wanted(states: Iterable[State]) -> int:
    """Nothing of ours needs these any longer: their workers are told to forget them. How many were still held."""
    held = State.objects.filter(pk__in=[state.pk for state in states]).held()
    rows = dict(held.select_for_update(no_key=True).order_by("pk").values_list("pk", "worker"))
    State.objects.filter(pk__in=rows).update(status=Status.LEAVING, expires_at=timezone.now())
    ring(*(f"worker.{worker}" for worker in sorted(set(rows.values()))))
    return len(rows)


@transaction.atomic
def expire() -> int:
    """Let go what has expired and nothing needs. For the supervisor's pass; how many those were."""
    due = State.objects.held().filter(expires_at__lt=timezone.now()).order_by("expires_at")
    states = list(due.select_for_update(no_key=True, skip_locked=True)[:EXPIRE_AT_ONCE])
    kept = needed(states)
    free = [state for state in states if state.pk not in kept]
    return no_longer_wanted(free) if free else 0
