"""Who is told that a run has ended: webhooks of its workspace, and by mail whoever started it."""

from __future__ import annotations

import json

from django.conf import settings
from django.urls import reverse
from rest_framework.utils.encoders import JSONEncoder

from console.actions.webhooks import announce, mail
from console.models import Budget, Membership, Webhook
from console.money import dollars, money

from .models import Run

EVENTS = {
    Run.Status.COMPLETED: Webhook.Event.RUN_COMPLETED,
    Run.Status.FAILED: Webhook.Event.RUN_FAILED,
    Run.Status.CANCELLED: Webhook.Event.RUN_CANCELLED,
}


def run_ended(run: Run) -> None:
    """Put both into the outbox, in the transaction that ends the run."""
    # Not at the top: what draws a run stands above what ends it.
    from .api.serializers import RunSerializer, page_of
    from .pages.sentences import recipes, why_stopped

    run.budget = Budget.objects.get(pk=run.budget_id)  # settled meanwhile, by other hands
    event = EVENTS[Run.Status(run.status)]
    reason = run.get_stop_reason_display()
    subject = f"Run #{run.number} {run.name}"
    document = json.loads(json.dumps(RunSerializer(run).data, cls=JSONEncoder))
    data = {"run": {**document, "why": why_stopped(run)}, "workspace": run.workspace.slug}
    announce(workspace=run.workspace, event=event, subject=subject, data=data)
    creator = run.creator
    if creator is None or not Membership.objects.filter(workspace=run.workspace, user=creator).exists():
        return
    result = (
        f"{recipes(run)}."
        if run.is_scripted
        else f"{run.success:,} of {run.valid:,} valid attempts succeeded."
    )
    lines = [
        f"{subject} has ended: {run.get_status_display().lower()}.",
        f"{why_stopped(run)} {result}",
        f"Spent {money(run.budget.spent)} of {dollars(run.budget.cap)}.",
        page_of(run),
        f"You get this because you started it. To get none: {settings.PUBLIC_URL}{reverse('account_email')}",
    ]
    mail(
        workspace=run.workspace,
        recipient=creator,
        event=event,
        subject=f"{subject}: {run.get_status_display().lower()}, {reason[:1].lower()}{reason[1:]}",
        body="\n\n".join(lines) + "\n",
    )
