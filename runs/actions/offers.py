"""A run's work is handed to workers with a free slot and the template's image, lowest number first.

Where its attempts share a prefix and a worker can save desktops, the prefix is played first; once it is saved, its
attempts are offered to that worker alone, to start from it. Each plays the prefix itself where it could not be saved,
or where what was saved cannot be had any longer: its worker is gone, or has lost it. So does the last try of one that
did not start from it. So nothing ever waits for what will not come.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from django.db.models import Count
from django.utils import timezone

from console.actions.budgets import BudgetExhausted
from console.api.signing import canonical
from desktops.actions import lease
from desktops.actions.pins import pin
from desktops.actions.rates import rates_for
from desktops.models import Assignment, State, Worker
from desktops.protocol.actions import recipe_adapter
from desktops.protocol.attempt import AttemptOrder, Attestation, Fork, PrefixOrder
from desktops.protocol.messages import LEASE_SECONDS
from runs.models import Attempt, Prefix, Run, Task

from . import attempts, prefixes


@dataclass
class Offered:
    count: int = 0
    exhausted: BudgetExhausted | None = None


def able_workers(run: Run, *, connected: bool = True, paused: bool = False) -> list[Worker]:
    """Workers of the workspace that have the template's image and take work, or with `paused` may take some again."""
    workers = Worker.objects.for_workspace(run.workspace)
    if not paused:
        workers = workers.filter(paused=False)
    if connected:
        workers = workers.connected()
    version = run.template_version
    return [worker for worker in workers if worker.has_image(version.template.name, version.digest)]


class Places:
    """The free slots of the workers that can play the run, and how many of them it may take."""

    def __init__(self, run: Run, *, playing: int) -> None:
        self.workers = able_workers(run)
        used = dict(
            Assignment.objects.filter(worker__in=self.workers)
            .live()
            .values_list("worker")
            .annotate(live=Count("pk"))
            .order_by("worker")
        )
        self.free = {worker.pk: max(0, worker.slots - used.get(worker.pk, 0)) for worker in self.workers}
        self.rates = rates_for(run.template_version, self.workers)
        self.room = min(sum(self.free.values()), run.workspace.run_parallelism - playing)
        self.taken = 0

    @property
    def slots(self) -> int:
        return sum(worker.slots for worker in self.workers)

    @property
    def can_fork(self) -> bool:
        return any(worker.can_fork for worker in self.workers)

    def roomiest(self, *, avoid: UUID | None, can_fork: bool = False) -> Worker | None:
        """The worker with most free slots; one where this failed already only if there is no other."""
        return max(
            (one for one in self.workers if self.free[one.pk] and one.can_fork >= can_fork),
            key=lambda one: (one.pk != avoid, self.free[one.pk]),
            default=None,
        )

    def take(self, worker: Worker) -> None:
        self.free[worker.pk] -= 1
        self.room -= 1
        self.taken += 1


def offer_queued(run: Run) -> Offered:
    """Hand out what waits, while slots, parallelism and budget allow."""
    if not run.queued:
        return Offered()
    opened: list[Prefix] = []
    if prefixes.forks(run):
        opened = list(Prefix.objects.filter(run=run).open().select_related("state__worker", "task"))
    playing = sum(prefix.status == Prefix.Status.RUNNING for prefix in opened)
    places = Places(run, playing=run.running + run.verifying + playing)
    result = Offered()
    try:
        _offer_prefixes_again(run, places, opened)
        _offer_forks(run, places, opened)
        _offer_rest(run, places, opened)
    except BudgetExhausted as error:
        result.exhausted = error
    result.count = places.taken
    return result


def _offer_prefixes_again(run: Run, places: Places, opened: list[Prefix]) -> None:
    """Those whose last try broke, but for what no worker that is here could save."""
    for prefix in [one for one in opened if one.status == Prefix.Status.QUEUED]:
        if places.workers and not places.can_fork:
            prefixes.end_prefix(
                run, prefix, status=Prefix.Status.ERROR, reasons=prefix.invalid_reasons or ["worker_lost"]
            )
            opened.remove(prefix)
            continue
        worker = places.roomiest(avoid=prefix.worker_id, can_fork=True)
        if worker is not None and places.room > 0:
            hand_out_prefix(run, prefix, worker, places.rates[worker.pk])
            places.take(worker)


def _offer_forks(run: Run, places: Places, opened: list[Prefix]) -> None:
    """Attempts whose prefix is saved."""
    saved = {prefix.pk: prefix for prefix in opened if prefix.status == Prefix.Status.SAVED}
    if not saved or places.room <= 0:
        return
    queued = Attempt.objects.filter(run=run, status=Attempt.Status.QUEUED, prefix__in=saved)
    for attempt in queued.select_related("task").order_by("tries", "number"):
        if places.room <= 0:
            return
        assert attempt.prefix_id is not None
        prefix = saved[attempt.prefix_id]
        worker = _home(prefix, places)
        if _does_not_start(attempt):
            _hand_out_anywhere(run, attempt, places)
        elif worker is not None:
            if places.free[worker.pk]:
                hand_out(run, attempt, worker, places.rates[worker.pk], prefix=prefix)
                places.take(worker)
        elif not _may_be_back(prefix):
            _hand_out_anywhere(run, attempt, places)


def _does_not_start(attempt: Attempt) -> bool:
    """Whether its last try is all that is left, and the one before got no desktop from what was saved."""
    if not attempt.tries or attempt.tries + 1 < attempt.tries_allowed:
        return False
    return "desktop_start_failed" in attempt.try_rows.get(number=attempt.tries).invalid_reasons


def _home(prefix: Prefix, places: Places) -> Worker | None:
    """The worker that has what was saved, if it can play."""
    state = prefix.state
    if state is None or state.status != State.Status.HELD:
        return None
    return next((worker for worker in places.workers if worker.pk == state.worker_id), None)


def _may_be_back(prefix: Prefix) -> bool:
    """Its worker was cut off just now: that is no reason yet to play without what it has."""
    state = prefix.state
    if state is None or state.status != State.Status.HELD:
        return False
    worker, lately = state.worker, timezone.now() - timedelta(seconds=LEASE_SECONDS)
    cut_off = not worker.connected and worker.last_seen_at is not None and worker.last_seen_at > lately
    return cut_off and not worker.paused


def _offer_rest(run: Run, places: Places, opened: list[Prefix]) -> None:
    """Attempts that share nothing, those that play their prefix themselves, and the prefixes of groups not begun."""
    held_back = {prefix.pk for prefix in opened}
    while places.room > 0:
        waiting = Attempt.objects.filter(run=run, status=Attempt.Status.QUEUED)
        if held_back:
            waiting = waiting.exclude(prefix__in=held_back)
        queued = list(waiting.select_related("task").order_by("tries", "number")[: places.room])
        if not queued:
            if not attempts.create_next_round(run):
                return
            continue
        begun: set[tuple[int, int, int]] = set()
        for attempt in queued:
            group = (attempt.task_id, attempt.round, attempt.copy)
            if group in begun:
                continue
            if _begins_group(run, attempt, places):
                worker = places.roomiest(avoid=None, can_fork=True)
                if worker is None or len(held_back) >= places.slots:
                    return  # what was saved is to be used before more is
                prefix = prefixes.open_prefix(run, attempt)
                held_back.add(prefix.pk)
                begun.add(group)
                hand_out_prefix(run, prefix, worker, places.rates[worker.pk])
                places.take(worker)
            else:
                _hand_out_anywhere(run, attempt, places)


def _begins_group(run: Run, attempt: Attempt, places: Places) -> bool:
    """Whether its group's prefix is to be played first: there is one, it leaves something to do, and can be saved."""
    first = attempt.fork == 1 and not attempt.tries and attempt.prefix_id is None
    if not first or not prefixes.forks(run) or not places.can_fork:
        return False
    return len(attempt.task.recipe or ()) > run.spec["prefix_steps"]


def _hand_out_anywhere(run: Run, attempt: Attempt, places: Places) -> None:
    worker = places.roomiest(avoid=attempt.worker_id if attempt.tries else None)
    if worker is not None:
        hand_out(run, attempt, worker, places.rates[worker.pk])
        places.take(worker)


def hand_out(
    run: Run,
    attempt: Attempt,
    worker: Worker,
    rate_usd_per_hour: Decimal,
    *,
    prefix: Prefix | None = None,
) -> None:
    """With a prefix: to go on from what was saved of it."""
    method = ""
    if prefixes.forks(run):
        method = Attempt.ForkMethod.LIVE if prefix else Attempt.ForkMethod.REPLAY
    order = AttemptOrder(
        attempt_id=str(attempt.pk),
        try_number=attempt.tries + 1,
        recipe=recipe_adapter.validate_python(attempt.task.recipe),
        prefix_steps=run.spec["prefix_steps"],
        max_steps=run.spec["max_steps"],
        fork=_fork_of(prefix) if prefix else None,
        setup_state="" if prefix else setup_state(run, attempt.task, worker, times=attempts_of_task(run)),
        **_common(run, attempt.task),
    )
    assignment = _offer(run, "attempt", attempt.pk, attempt.tries + 1, order, worker, rate_usd_per_hour)
    attempts.begin_try(run, attempt, assignment, worker, fork_method=method)


def hand_out_prefix(run: Run, prefix: Prefix, worker: Worker, rate_usd_per_hour: Decimal) -> None:
    recipe = recipe_adapter.validate_python(prefix.task.recipe)
    times = run.spec["parallel_copies"] * run.spec["rounds"]
    order = PrefixOrder(
        prefix_id=str(prefix.pk),
        try_number=prefix.tries + 1,
        recipe=recipe[: run.spec["prefix_steps"]],
        state=f"prefix-{uuid4()}",
        setup_state=setup_state(run, prefix.task, worker, times=times),
        **_common(run, prefix.task),
    )
    assignment = _offer(run, "prefix", prefix.pk, prefix.tries + 1, order, worker, rate_usd_per_hour)
    prefixes.begin_try(run, prefix, assignment, worker)


def attempts_of_task(run: Run) -> int:
    spec = run.spec
    return int(spec["parallel_copies"] * spec["fork_copies"] * spec["rounds"])


def setup_state(run: Run, task: Task, worker: Worker, *, times: int) -> str:
    """What the desktop after the task's setup is to be saved as; empty where that is of no use, or not wanted."""
    document = task.document
    setup = document.get("config")
    if times < 2 or not setup or not worker.can_fork or document.get("keep_setup") is False:
        return ""
    made_of = canonical([run.template_version.digest, task.digest, setup])
    return f"setup-{hashlib.sha256(made_of).hexdigest()}"


def _fork_of(prefix: Prefix) -> Fork:
    assert prefix.state is not None
    parent = Attestation.model_validate(prefix.state.attestation)
    return Fork(state=prefix.state.name, parent=parent, screenshot=prefix.screenshot or parent.screenshot)


def _common(run: Run, task: Task) -> dict[str, Any]:
    return {
        "run_id": str(run.pk),
        "template": pin(run.template_version),
        "task": task.document,
    }


def _offer(
    run: Run,
    kind: str,
    subject: UUID,
    epoch: int,
    order: AttemptOrder | PrefixOrder,
    worker: Worker,
    rate_usd_per_hour: Decimal,
) -> Assignment:
    return lease.offer(
        worker=worker,
        kind=kind,
        subject=subject,
        epoch=epoch,
        payload=order.model_dump(mode="json"),
        budget=run.budget,
        rate_usd_per_hour=rate_usd_per_hour,
    )
