"""Computers: every desktop of a run, what it shows, how long it was up, and that none is left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from django.http import HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.models import LedgerEntry
from console.pages.loaders import WorkspaceRequest, workspace_page
from console.pages.paging import by_number
from desktops.models import Computer, ComputerTally
from runs.models import Attempt, AttemptTry, Prefix, PrefixTry, Run
from runs.pages import forks, sentences
from runs.pages.frame import never_stored, render_tab
from runs.pages.loaders import run_or_404

ROWS: Final = 30
HELD_SHOWN: Final = 48


@dataclass(frozen=True)
class Desktop:
    computer: Computer
    attempt: Attempt | None
    prefix: Prefix | None
    up: float
    cost: Decimal | None
    most: int  # steps that it may take

    @property
    def step(self) -> int:
        return self.played.steps if self.played else 0

    @property
    def played(self) -> Attempt | Prefix | None:
        return self.attempt or self.prefix

    @property
    def why_gone(self) -> str:
        return sentences.why_gone(self.computer.stop_reason)

    @property
    def forks_page(self) -> int:
        """Of the tab Forks, where the prefix is drawn."""
        return (self.prefix.number - 1) // forks.GROUPS + 1 if self.prefix else 1


@require_safe
@never_stored
@workspace_page
def computers(request: WorkspaceRequest, number: int) -> HttpResponse:
    run = run_or_404(request, number)
    all_of_it = Computer.objects.for_workspace(request.workspace).filter(group=run.pk)
    tallies = list(ComputerTally.objects.filter(group=run.pk).select_related("worker"))
    counted = {
        "started": sum(one.started for one in tallies),
        "stopped": sum(one.stopped for one in tallies),
    }
    worker = request.GET.get("worker", "")
    shown = all_of_it.select_related("worker", "assignment").defer("assignment__payload")
    if worker:
        shown = shown.filter(worker__in=[one.worker_id for one in tallies if one.worker.name == worker])
    held = list(shown.held().order_by("-number")[:HELD_SHOWN])
    page = by_number(shown.filter(stopped_at__isnull=False), request.GET, rows=ROWS, field="number")
    desktops = _with_what_played(run, [*held, *page.rows], timezone.now())
    context = {
        "counted": counted,
        "still_held": counted["started"] - counted["stopped"],
        "held_desktops": desktops[: len(held)],
        "stopped": desktops[len(held) :],
        "page": page,
        "workers": sorted(one.worker.name for one in tallies),
        "worker": worker,
    }
    return render_tab(request, run, "run-computers", "runs/computers.html", context)


def _with_what_played(run: Run, computers: list[Computer], now: datetime) -> list[Desktop]:
    """Three queries more, for any number of computers: the tries on them, and what they cost."""
    pks = [computer.pk for computer in computers]
    attempts = {
        one.computer_id: one.attempt
        for one in AttemptTry.objects.filter(computer__in=pks)
        .select_related("attempt__task")
        .defer("verdict", "attempt__task__document", "attempt__task__recipe")
    }
    prefixes = {
        one.computer_id: one.prefix
        for one in PrefixTry.objects.filter(computer__in=pks)
        .select_related("prefix__task")
        .defer("prefix__task__document", "prefix__task__recipe")
    }
    costs = dict(LedgerEntry.objects.filter(subject__in=pks).values_list("subject", "cost"))
    return [
        Desktop(
            computer,
            attempts.get(computer.pk),
            prefixes.get(computer.pk),
            ((computer.stopped_at or now) - computer.started_at).total_seconds(),
            costs.get(computer.pk),
            run.spec["prefix_steps" if computer.pk in prefixes else "max_steps"],
        )
        for computer in computers
    ]
