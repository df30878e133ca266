"""What a run has had of the workers and what is left of it: the one definition, for pages and API.

`started N, stopped N, swept at hh:mm:ss, 0 left`: counted from the run's computers, and swept only when each worker
that played it has looked for desktops nobody owns after its last one was gone. Kept sums: flat at any size.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from django.db.models import F, Max, OuterRef, Subquery, Sum

from console.models import LedgerEntry, LedgerTally
from desktops.models import Computer, ComputerTally, Worker

from .models import Run, RunSweep

# A worker's last desktop to go is among the last that were started; further back nobody looks.
LOOKED_AT: Final = 1000


@dataclass(frozen=True)
class Receipt:
    """`seconds` and `cost` of desktops that are gone, dollars; `open` ledger rows; `waiting`: names of workers."""

    started: int
    stopped: int
    swept_at: datetime | None
    swept_left: int
    waiting: list[str]
    entries: int
    open: int
    seconds: Decimal
    cost: Decimal

    @property
    def left(self) -> int:
        """Of the run, not seen to be gone. What a sweep could not remove is in it: its stop is not told until it is
        gone; `swept_left` may be others' on the same worker."""
        return self.started - self.stopped

    @property
    def clean(self) -> bool:
        return not self.left and not self.open and not self.waiting


def receipt(run: Run) -> Receipt:
    """Four queries."""
    counted = ComputerTally.objects.filter(group=run.pk).aggregate(
        started=Sum("started"), stopped=Sum("stopped")
    )
    sweeps = list(RunSweep.objects.filter(run=run).order_by("worker__name").select_related("worker"))
    waiting = [sweep.worker.name for sweep in sweeps if sweep.swept_at is None]
    days = LedgerTally.objects.filter(budget=run.budget_id, span=LedgerTally.Span.DAY)
    settled = days.aggregate(entries=Sum("entries"), seconds=Sum("seconds"), cost=Sum("cost"))
    unsettled = LedgerEntry.objects.filter(budget=run.budget_id, settled_at=None).count()
    swept = [sweep.swept_at for sweep in sweeps if sweep.swept_at is not None]
    return Receipt(
        started=counted["started"] or 0,
        stopped=counted["stopped"] or 0,
        swept_at=max(swept) if swept and not waiting else None,
        swept_left=sum(sweep.left or 0 for sweep in sweeps),
        waiting=waiting,
        entries=(settled["entries"] or 0) + unsettled,
        open=unsettled,
        seconds=settled["seconds"] or Decimal(0),
        cost=settled["cost"] or Decimal(0),
    )


def await_sweeps(run: Run) -> None:
    """The run has ended: from now on a sweep of each worker that played it is looked for."""
    assert run.ended_at is not None
    workers = list(ComputerTally.objects.filter(group=run.pk).values_list("worker_id", flat=True))
    if not workers:
        return
    latest = Computer.objects.filter(group=run.pk).order_by("-number")[:LOOKED_AT].values("pk")
    lasts = dict(
        Computer.objects.filter(pk__in=latest, stopped_at__isnull=False)
        .order_by()
        .values_list("worker_id")
        .annotate(last=Max("stopped_at"))
    )
    rows = [RunSweep(run=run, worker_id=pk, after=lasts.get(pk, run.ended_at)) for pk in workers]
    RunSweep.objects.bulk_create(rows)


def look_again(run: Run, computer: Computer) -> None:
    """A desktop of a run that has ended was told of late: what was swept before it was gone says nothing of it."""
    gone = computer.stopped_at
    assert gone is not None
    row, _ = RunSweep.objects.get_or_create(run=run, worker_id=computer.worker_id, defaults={"after": gone})
    if row.after < gone:
        row.after = gone
        if row.swept_at is not None and row.swept_at <= row.after:
            row.swept_at = row.left = None
        row.save(update_fields=["after", "swept_at", "left"])


def forget_sweeps(run: Run) -> None:
    """The run goes on: what was swept says nothing of the desktops to come."""
    RunSweep.objects.filter(run=run).delete()


def note_sweeps() -> int:
    """Fill in what workers have told of their sweeps since. One statement; returns how many."""
    told = Worker.objects.filter(pk=OuterRef("worker_id"))
    due = RunSweep.objects.filter(swept_at=None, worker__swept_at__gt=F("after"))
    return due.update(
        swept_at=Subquery(told.values("swept_at")[:1]), left=Subquery(told.values("swept_left")[:1])
    )
