"""What a desktop costs an hour: the template version's rate, or the one set for the template on a worker.

A rate is read when a desktop is offered and stored with the assignment and its ledger row: a change never touches
what is open.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from uuid import UUID

from django.db import transaction

from console.actions import audit
from console.actions.workspaces import NotAllowed
from console.actor import Actor
from desktops.models import Template, TemplateVersion, Worker, WorkerRate
from desktops.models.rate import LOWEST_RATE


class RateRejected(ValueError):
    """This cannot be a rate. The message is a sentence for people."""


def rates_for(version: TemplateVersion, workers: Iterable[Worker]) -> dict[UUID, Decimal]:
    """Dollars an hour on each of these workers, by primary key. One query."""
    known = list(workers)
    own = dict(
        WorkerRate.objects.filter(template=version.template_id, worker__in=known).values_list(
            "worker_id", "rate_usd_per_hour"
        )
    )
    return {worker.pk: own.get(worker.pk, version.rate_usd_per_hour) for worker in known}


@transaction.atomic
def set_rate(version: TemplateVersion, *, rate: Decimal, actor: Actor) -> None:
    """The version's rate from now on. The same rate changes nothing. Raises NotAllowed, RateRejected."""
    _check(rate, actor)
    row = TemplateVersion.objects.select_for_update(no_key=True).get(pk=version.pk)
    was, version.rate_usd_per_hour = row.rate_usd_per_hour, rate
    if was == rate:
        return
    version.save(update_fields=["rate_usd_per_hour"])
    audit.record(
        workspace=version.template.workspace,
        actor=actor,
        action="template.rate_changed",
        subject=f"template {version}",
        detail={"was": _plain(was), "rate_usd_per_hour": _plain(rate)},
    )


@transaction.atomic
def set_worker_rate(*, template: Template, worker: Worker, rate: Decimal | None, actor: Actor) -> None:
    """The template's rate on this worker from now on; None: the version’s own. Raises NotAllowed, RateRejected."""
    _check(rate, actor)
    if template.workspace_id != worker.workspace_id:
        raise RateRejected("The template and the worker belong to different workspaces.")
    row = WorkerRate.objects.select_for_update(no_key=True).filter(template=template, worker=worker).first()
    was = row.rate_usd_per_hour if row else None
    if was == rate:
        return
    if rate is None:
        WorkerRate.objects.filter(template=template, worker=worker).delete()
    else:
        WorkerRate.objects.update_or_create(
            template=template, worker=worker, defaults={"rate_usd_per_hour": rate}
        )
    audit.record(
        workspace=template.workspace,
        actor=actor,
        action="template.rate_changed",
        subject=f"template {template} on {worker}",
        detail={"was": _plain(was), "rate_usd_per_hour": _plain(rate)},
    )


def _check(rate: Decimal | None, actor: Actor) -> None:
    if actor.kind not in ("operator", "system"):
        raise NotAllowed("Rates are set by the operator of this console.")
    if rate is not None and not (rate.is_finite() and rate >= LOWEST_RATE):
        raise RateRejected(f"Must be at least ${LOWEST_RATE} an hour.")


def _plain(rate: Decimal | None) -> str | None:
    return None if rate is None else f"{rate:.6f}"
