"""Desktops come into being, get ready, go away, and assignments end; the ledger opens and settles with them.

All of it happens in memory, on rows that are locked, and is written at the end: a statement a table, and one movement
of money a budget, however many desktops of it have started and stopped.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import ROUND_UP, Decimal
from typing import Any

from django.db.models import F, Q
from django.utils import timezone

from console.actions.budgets import affordable, cost_of, reserve, settle
from console.bulk import columns_of, insert_rows, update_rows
from console.doorbell import ring
from console.models import Budget, LedgerEntry, Workspace
from desktops.actions.states import started_from
from desktops.handlers import BadRecord
from desktops.models import Assignment, Computer, TemplateVersion
from desktops.protocol import attempt as protocol

log = logging.getLogger(__name__)


@contextmanager
def keep_books(assignments: Iterable[Assignment], starting: Collection[uuid.UUID] = ()) -> Iterator[Books]:
    """The books of these assignments, whose rows are locked; written when the context ends well.

    `starting` are the computers that records say have started.
    """
    books = Books(assignments, starting)
    yield books
    books.write()


class Books:
    """One copy of each assignment's computers and open ledger entries. Use `keep_books`."""

    def __init__(self, assignments: Iterable[Assignment], starting: Collection[uuid.UUID]) -> None:
        self.assignments = {row.pk: row for row in assignments}
        known = Computer.objects.filter(Q(assignment__in=self.assignments) | Q(pk__in=starting))
        self.computers = {computer.pk: computer for computer in known.select_related("worker")}
        held = [computer.pk for computer in self.computers.values() if computer.stopped_at is None]
        open_ = LedgerEntry.objects.select_for_update(no_key=True).filter(subject__in=held).order_by("pk")
        self._entries = {entry.subject: entry for entry in open_} if held else {}
        self._new = len([pk for pk in starting if pk not in self.computers])
        self._numbers: Iterator[int] = iter(())
        self._orders: dict[uuid.UUID, tuple[dict[str, Any], str | None]] = {}
        self._versions: dict[tuple[Any, ...], TemplateVersion] = {}
        self._made: dict[uuid.UUID, Computer] = {}
        self._from: dict[tuple[uuid.UUID, str], list[datetime]] = {}  # worker, saved desktop → starts of it
        self._changed: dict[uuid.UUID, Computer] = {}
        self._opened: list[LedgerEntry] = []
        self._settled: list[LedgerEntry] = []
        self._touched: dict[uuid.UUID, Assignment] = {}
        self._money: dict[int, tuple[Budget, Decimal, Decimal]] = {}  # budget → it, released, spent

    def started(self, assignment: Assignment, record: protocol.ComputerStarted) -> Computer:
        """Open a desktop and its ledger entry. One that was already recorded is returned as it is."""
        pk = uuid.UUID(record.computer)
        known = self.computers.get(pk)
        if known is not None:
            if known.assignment_id != assignment.pk:
                raise BadRecord("This computer belongs to another assignment.")
            return known
        # The worker's clock may run ahead; money never starts in the future.
        started_at = min(record.at, timezone.now())
        computer = Computer(
            id=pk,
            workspace=assignment.workspace,
            number=self._number(assignment.workspace),
            worker=assignment.worker,
            assignment=assignment,
            template_version=self._version(assignment),
            purpose=assignment.kind,
            group=self._ordered(assignment)[1],
            engine=record.engine,
            engine_ref=record.engine_ref[:100],
            image_id=record.image_id,
            worker_version=assignment.worker.version,
            started_at=started_at,
        )
        entry = LedgerEntry(
            workspace=assignment.workspace,
            budget=assignment.budget,
            subject=pk,
            rate_usd_per_hour=assignment.rate_usd_per_hour,
            opened_at=started_at,
        )
        self.computers[pk] = self._made[pk] = computer
        self._entries[pk] = entry
        self._opened.append(entry)
        if record.from_state:
            self._from.setdefault((assignment.worker_id, record.from_state), []).append(started_at)
        return computer

    def ready(self, computer: Computer, record: protocol.ComputerReady) -> None:
        computer.ready_at, computer.ready_seconds = record.at, record.seconds
        self._changed[computer.pk] = computer

    def stopped(
        self, assignment: Assignment, computer: Computer, *, at: datetime, reason: str
    ) -> Decimal | None:
        """Settle a desktop that was seen to be gone and return its cost, of which the caller tells the handler.

        Once: a second word about it changes nothing and returns None.
        """
        if computer.stopped_at is not None:
            return None
        entry = self._entries[computer.pk]
        stopped_at = max(min(at, timezone.now()), computer.started_at)
        seconds = Decimal((stopped_at - computer.started_at).total_seconds()).quantize(
            Decimal("0.001"), rounding=ROUND_UP
        )
        cost = cost_of(seconds, entry.rate_usd_per_hour)
        if cost > assignment.reserved and assignment.status not in Assignment.LIVE:
            self._hold_again(assignment, computer, cost)
        if cost > assignment.reserved:
            # The worker stops a desktop before its paid time ends. Should one overstay all the same, the cap still
            # holds and the difference is ours.
            log.error("%s outlived its paid time: %s measured, %s paid", computer, cost, assignment.reserved)
            cost = assignment.reserved
        self._move(assignment, released=cost, spent=cost)
        entry.settled_at, entry.seconds, entry.cost = timezone.now(), seconds, cost
        if entry.pk is not None:
            self._settled.append(entry)
        computer.stopped_at, computer.stop_reason = stopped_at, reason[:200]
        self._changed[computer.pk] = computer
        if assignment.status not in Assignment.LIVE:
            self._release_rest(assignment)
        return cost

    def end(self, assignment: Assignment, *, status: str, at: datetime) -> None:
        """Close it. Money held for desktops that are gone is given back; one still held keeps its reservation."""
        assignment.status, assignment.ended_at = status, at
        self._touched[assignment.pk] = assignment
        computers = [one for one in self.computers.values() if one.assignment_id == assignment.pk]
        if all(computer.stopped_at is not None for computer in computers):
            self._release_rest(assignment)

    def write(self) -> None:
        insert_rows(Computer, [columns_of(computer) for computer in self._made.values()])
        insert_rows(LedgerEntry, [columns_of(entry) for entry in self._opened])
        for (worker, name), starts in sorted(self._from.items()):
            started_from(worker, name, times=len(starts), at=max(starts))
        changed = [computer for pk, computer in self._changed.items() if pk not in self._made]
        update_rows(changed, ["ready_at", "ready_seconds", "stopped_at", "stop_reason"])
        update_rows(self._settled, ["settled_at", "seconds", "cost"])
        update_rows(list(self._touched.values()), ["status", "ended_at", "reserved"])
        for _, (budget, released, spent) in sorted(self._money.items()):
            if released:
                settle(budget, reserved=released, cost=spent)
        if self._changed or self._touched:
            ring("supervisor")  # a desktop is ready, a slot is free, or money is back

    def _hold_again(self, assignment: Assignment, computer: Computer, cost: Decimal) -> None:
        """A desktop that was first told of when its lease was lost and its money given back: hold its cost anew, as far
        as its time was paid for and the caps still leave it."""
        paid = Decimal((assignment.paid_until - computer.started_at).total_seconds())
        wanted = min(cost, cost_of(max(paid, Decimal(0)), assignment.rate_usd_per_hour)) - assignment.reserved
        # Before its budgets, as everywhere: a later desktop of these books may take its number yet.
        Workspace.objects.select_for_update(no_key=True).get(pk=assignment.workspace_id)
        left, _ = affordable(assignment.budget)
        if left is not None:
            wanted = min(wanted, left)
        if wanted > 0:
            reserve(assignment.budget, wanted)
            assignment.reserved += wanted

    def _release_rest(self, assignment: Assignment) -> None:
        self._move(assignment, released=assignment.reserved, spent=Decimal(0))

    def _move(self, assignment: Assignment, *, released: Decimal, spent: Decimal) -> None:
        assignment.reserved -= released
        self._touched[assignment.pk] = assignment
        budget, before, cost = self._money.get(
            assignment.budget_id, (assignment.budget, Decimal(0), Decimal(0))
        )
        self._money[assignment.budget_id] = (budget, before + released, cost + spent)

    def _number(self, workspace: Workspace) -> int:
        """The next of the numbers that all new computers of these books take at once."""
        number = next(self._numbers, None)
        if number is None:
            count = max(1, self._new)
            rows = Workspace.objects.filter(pk=workspace.pk)
            rows.update(last_computer_number=F("last_computer_number") + count)
            last = rows.values_list("last_computer_number", flat=True).get()
            self._numbers, self._new = iter(range(last - count + 1, last + 1)), 0
            number = next(self._numbers)
        return number

    def _ordered(self, assignment: Assignment) -> tuple[dict[str, Any], str | None]:
        """The template its payload names and what its desktops are shown under; of all payloads, which are long, at
        once."""
        if not self._orders:
            rows = Assignment.objects.filter(pk__in=self.assignments)
            told = rows.values_list("pk", "payload__template", "payload__run_id")
            self._orders = {pk: (template, group) for pk, template, group in told}
        return self._orders[assignment.pk]

    def _version(self, assignment: Assignment) -> TemplateVersion:
        template, _ = self._ordered(assignment)
        named = (assignment.workspace_id, template["name"], template["version"])
        if named not in self._versions:
            self._versions[named] = TemplateVersion.objects.get(
                template__workspace=assignment.workspace_id,
                template__name=template["name"],
                version=template["version"],
            )
        return self._versions[named]
