"""The handler of the kinds `attempt` and `prefix`: what workers report of a run's work, a batch at a time."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal

from desktops.actions.states import keep_while
from desktops.handlers import register
from desktops.models import Assignment, Computer
from desktops.protocol.attempt import prefix_adapter, record_adapter
from runs.actions.prefixes import wanted_by_runs
from runs.models import Attempt, AttemptTry, Prefix, PrefixTry, Run
from runs.pending import Pending
from runs.plays import AttemptPlay, Play, PrefixPlay, Record

ATTEMPT, PREFIX = "attempt", "prefix"


class RunHandler:
    """One for both kinds: they write the same run's log and counters, of which there is one copy in a batch."""

    begins_anew = True

    def lock(self, subject: uuid.UUID) -> None:
        """The run's row: everything about one run happens one after another."""
        runs = Attempt.objects.filter(pk=subject).values("run")
        runs = runs.union(Prefix.objects.filter(pk=subject).values("run"))
        Run.objects.select_for_update(of=["self"], no_key=True).get(pk__in=runs)

    @contextmanager
    def batch(self, assignments: Collection[uuid.UUID]) -> Iterator[RunBatch]:
        """One copy of each run, attempt, prefix and try in memory; what has changed is written at the end."""
        attempts = AttemptTry.objects.filter(assignment__in=assignments).order_by("pk")
        prefixes = PrefixTry.objects.filter(assignment__in=assignments).order_by("pk")
        of_runs = attempts.order_by().values("attempt__run").union(prefixes.order_by().values("prefix__run"))
        locked = Run.objects.select_for_update(of=["self"], no_key=True).select_related("workspace")
        runs = {run.pk: run for run in locked.filter(pk__in=of_runs).order_by("pk")}
        plays: dict[uuid.UUID, Play] = {}
        known: dict[uuid.UUID, Attempt] = {}
        for one in attempts.select_related("attempt"):
            # Several tries of one attempt may be in a batch: an old one's late word, and the present one's.
            one.attempt = known.setdefault(one.attempt_id, one.attempt)
            one.attempt.run = runs[one.attempt.run_id]
            plays[one.assignment_id] = AttemptPlay(one.attempt.run, one)
        shared: dict[uuid.UUID, Prefix] = {}
        for row in prefixes.select_related("prefix__state"):
            row.prefix = shared.setdefault(row.prefix_id, row.prefix)
            row.prefix.run = runs[row.prefix.run_id]
            plays[row.assignment_id] = PrefixPlay(row.prefix.run, row)
        for run in runs.values():
            run.pending = Pending()
        yield RunBatch(plays)
        for run in runs.values():
            pending, run.pending = run.pending, None
            if pending is not None:
                pending.flush()


class RunBatch:
    def __init__(self, plays: Mapping[uuid.UUID, Play]) -> None:
        self._plays = plays

    def record(self, assignment: Assignment, record: Record, computer: Computer | None) -> bool:
        return self._plays[assignment.pk].record(assignment, record, computer)

    def lost(self, assignment: Assignment) -> None:
        self._plays[assignment.pk].lost(assignment)

    def computer_settled(self, assignment: Assignment, computer: Computer, cost: Decimal) -> None:
        self._plays[assignment.pk].settled(computer, cost)

    def computer_told_late(self, assignment: Assignment, computer: Computer) -> None:
        self._plays[assignment.pk].told_late(computer)


_handler = RunHandler()
register(ATTEMPT, _handler, record_adapter)
register(PREFIX, _handler, prefix_adapter)
keep_while(wanted_by_runs)
