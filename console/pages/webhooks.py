"""Webhooks: list, add (the secret is shown this once), and one with its deliveries. For admins and owners."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import OuterRef, Subquery
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from console.actions.webhooks import MOST, add_webhook, redeliver, remove_webhook, send_test, set_active
from console.actor import Actor
from console.models import Delivery, Webhook
from console.models.webhook import URL_LENGTH
from console.postman import WAITS

from .loaders import WorkspaceRequest, managers_only, workspace_page
from .paging import by_number

ROWS = 20


def _webhook_or_404(request: WorkspaceRequest, webhook_id: UUID) -> Webhook:
    webhooks = Webhook.objects.for_workspace(request.workspace).select_related("workspace", "creator")
    found: Webhook | None = webhooks.filter(pk=webhook_id).first()
    if found is None:
        raise Http404("No such webhook.")
    return found


@workspace_page
@require_http_methods(["GET", "HEAD", "POST"])
@managers_only
@never_cache
def webhook_list(request: WorkspaceRequest) -> HttpResponse:
    """POST adds one and shows its secret in the reply itself: it cannot be read again, so nothing can redirect."""
    if request.method != "POST":
        return _page(request, {"events": Webhook.Event.values})
    url, events = request.POST.get("url", "")[: URL_LENGTH + 1], request.POST.getlist("events")
    try:
        made, secret = add_webhook(
            workspace=request.workspace,
            url=url,
            events=events,
            actor=Actor.person(request.user),
        )
    except ValidationError as refused:
        errors = {field: texts[0] for field, texts in refused.message_dict.items()}
        return _page(request, {"url": url, "events": events}, errors=errors, status=422)
    return _page(request, {"events": Webhook.Event.values}, made=made, secret=secret, status=201)


def _page(request: WorkspaceRequest, form: dict[str, Any], status: int = 200, **more: Any) -> HttpResponse:
    last = Delivery.objects.filter(webhook=OuterRef("pk")).order_by("-pk").values("pk")[:1]
    webhooks = list(Webhook.objects.for_workspace(request.workspace).annotate(last=Subquery(last)))
    latest = Delivery.objects.in_bulk([one.last for one in webhooks if one.last])
    context = {
        "webhooks": [(one, latest.get(one.last)) for one in webhooks],
        "events": Webhook.Event.choices,
        "form": form,
        "most": MOST,
        "url_length": URL_LENGTH,
        **more,
    }
    return render(request, "workspace/webhooks.html", context, status=status)


@workspace_page
@require_safe
@managers_only
@never_cache
def webhook(request: WorkspaceRequest, webhook_id: UUID) -> HttpResponse:
    found = _webhook_or_404(request, webhook_id)
    deliveries = Delivery.objects.filter(webhook=found).prefetch_related("try_rows")
    page = by_number(deliveries, request.GET, rows=ROWS, field="pk")
    context = {
        "webhook": found,
        "page": page,
        "waiting": any(delivery.due_at for delivery in page.rows),
        "now": timezone.now(),
        "tries": len(WAITS) + 1,
        "hours": round(sum(WAITS) / 3600),
    }
    return render(request, "workspace/webhook.html", context)


@workspace_page
@require_POST
@managers_only
def test(request: WorkspaceRequest, webhook_id: UUID) -> HttpResponseRedirect:
    send_test(_webhook_or_404(request, webhook_id), actor=Actor.person(request.user))
    messages.info(request, "A test is on its way. What came of it stands below in a moment.")
    return redirect("webhook", request.workspace.slug, webhook_id)


@workspace_page
@require_POST
@managers_only
def switch(request: WorkspaceRequest, webhook_id: UUID) -> HttpResponseRedirect:
    found = _webhook_or_404(request, webhook_id)
    set_active(found, active=request.POST.get("to") == "on", actor=Actor.person(request.user))
    messages.info(
        request, "It is on: told from the next run on." if found.active else "It is off: told nothing."
    )
    return redirect("webhook", request.workspace.slug, webhook_id)


@workspace_page
@require_POST
@managers_only
def remove(request: WorkspaceRequest, webhook_id: UUID) -> HttpResponseRedirect:
    remove_webhook(_webhook_or_404(request, webhook_id), actor=Actor.person(request.user))
    messages.info(request, "The webhook is removed, and its deliveries with it.")
    return redirect("webhook-list", request.workspace.slug)


@workspace_page
@require_POST
@managers_only
def again(request: WorkspaceRequest, webhook_id: UUID, number: int) -> HttpResponseRedirect:
    found = _webhook_or_404(request, webhook_id)
    delivery = found.deliveries.select_related("workspace", "webhook__workspace").filter(pk=number).first()
    if delivery is None:
        raise Http404("No such delivery.")
    redeliver(delivery, actor=Actor.person(request.user))
    messages.info(request, "It is sent again, as the same message.")
    return redirect("webhook", request.workspace.slug, webhook_id)
