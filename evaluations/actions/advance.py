"""One look at one evaluation: verdicts that are known already are taken, and what waits is handed to workers.

Safe to repeat and safe to kill, like that of a run: a transaction on the evaluation's locked row.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection
from typing import Final

from django.db import transaction
from django.db.models import Count

from console.actions.budgets import BudgetExhausted
from desktops.actions import lease
from desktops.actions.pins import pin
from desktops.actions.rates import rates_for
from desktops.models import Assignment, State, Worker
from desktops.protocol.actions import recipe_adapter
from desktops.protocol.attempt import AttemptOrder, Attestation, Fork
from evaluations.models import Batch, Evaluation, Rollout
from runs.actions.advance import pay_ahead

from . import rollouts

log = logging.getLogger(__name__)
ROLLOUT: Final = "rollout"
LOOKED_AT: Final = 500  # queued rollouts in one look


def going() -> Collection[uuid.UUID]:
    return Evaluation.objects.going().order_by("created_at").values_list("pk", flat=True)


def advance(pk: uuid.UUID) -> None:
    with transaction.atomic():
        rows = Evaluation.objects.select_for_update(of=["self"], skip_locked=True, no_key=True)
        evaluation = rows.select_related("workspace", "budget").filter(pk=pk).first()
        if evaluation is None:
            return  # somebody is at it: the next look will do
        queued = Rollout.objects.filter(evaluation=evaluation, status=Rollout.Status.QUEUED)
        waiting = list(
            queued.select_related(
                "batch__template_version__template", "batch__state__worker", "task"
            ).order_by("tries", "number")[:LOOKED_AT]
        )
        waiting = _remembered(evaluation, waiting)
        waiting = [one for one in waiting if _can_start(evaluation, one)]
        try:
            _offer(evaluation, waiting)
        except BudgetExhausted as error:
            log.info("%s waits for money: %s", evaluation, error)
        subjects = Rollout.objects.filter(evaluation=evaluation, status=Rollout.Status.RUNNING).values("pk")
        live = Assignment.objects.live().filter(kind=ROLLOUT, subject__in=subjects).select_related("budget")
        pay_ahead(list(live.select_for_update(of=["self"], no_key=True).order_by("pk")))


def _remembered(evaluation: Evaluation, waiting: list[Rollout]) -> list[Rollout]:
    """Those that are to be played: the others have taken a verdict, or wait for one that is being made."""
    asked = [one.identity for one in waiting if one.batch.memo and not one.tries]
    twins = Rollout.objects.for_workspace(evaluation.workspace).filter(identity__in=asked)
    twins = twins.exclude(evaluation=evaluation).exclude(batch__repro_class="unrepeatable")
    known = {
        one.identity: one
        for one in twins.filter(verifier=Rollout.Verifier.VALID, source=None).order_by("-ended_at")
    }
    busy = set(twins.filter(status=Rollout.Status.RUNNING).values_list("identity", flat=True))
    left = []
    for one in waiting:
        memo = one.batch.memo and not one.tries
        if memo and one.identity in known:
            rollouts.take_memo(evaluation, one, known[one.identity])
        elif not (memo and one.identity in busy):
            left.append(one)
    return left


def _can_start(evaluation: Evaluation, rollout: Rollout) -> bool:
    """What it starts from may have been deleted, or lost with its worker: then it ends without a verdict."""
    state = rollout.batch.state
    if state is None or state.status == State.Status.HELD:
        return True
    rollouts.give_up(evaluation, rollout, reason="desktop_start_failed")
    return False


def _offer(evaluation: Evaluation, waiting: list[Rollout]) -> None:
    room = evaluation.workspace.run_parallelism - evaluation.running
    free = _free(evaluation)
    for one in waiting:
        if room <= 0 or not any(free.values()):
            return
        version = one.batch.template_version
        assert version is not None
        able = [
            worker
            for worker, slots in free.items()
            if slots and worker.has_image(version.template.name, version.digest) and _has(worker, one.batch)
        ]
        if not able:
            continue
        worker = max(able, key=lambda worker: free[worker])
        _hand_out(evaluation, one, worker)
        free[worker] -= 1
        room -= 1


def _free(evaluation: Evaluation) -> dict[Worker, int]:
    workers = Worker.objects.for_workspace(evaluation.workspace).filter(paused=False).connected()
    live = Assignment.objects.filter(worker__in=workers).live().values_list("worker")
    used = dict(live.annotate(live=Count("pk")).order_by("worker"))
    return {worker: max(0, worker.slots - used.get(worker.pk, 0)) for worker in workers}


def _has(worker: Worker, batch: Batch) -> bool:
    state = batch.state
    return state is None or (state.worker_id == worker.pk and state.status == State.Status.HELD)


def _hand_out(evaluation: Evaluation, rollout: Rollout, worker: Worker) -> None:
    batch, task = rollout.batch, rollout.task
    assert batch.template_version is not None
    assert task is not None
    recipe = recipe_adapter.validate_python(task.recipe)
    fork = None
    if batch.state is not None:
        parent = Attestation.model_validate(batch.state.attestation)
        fork = Fork(state=batch.state.name, parent=parent, screenshot=parent.screenshot)
    order = AttemptOrder(
        attempt_id=str(rollout.pk),
        run_id=str(evaluation.pk),
        try_number=rollout.tries + 1,
        template=pin(batch.template_version),
        task=task.document,
        recipe=recipe,
        max_steps=len(recipe) + 1,  # the policy says in one more that it is done
        fork=fork,
    )
    assignment = lease.offer(
        worker=worker,
        kind=ROLLOUT,
        subject=rollout.pk,
        epoch=rollout.tries + 1,
        payload=order.model_dump(mode="json"),
        budget=evaluation.budget,
        rate_usd_per_hour=rates_for(batch.template_version, [worker])[worker.pk],
    )
    rollouts.begin_try(evaluation, rollout, assignment)
