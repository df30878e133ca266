"""Tokens: list, make (shown this once), revoke. Admins and owners see all, members their own."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from console.actions.tokens import NAME_LENGTH, SPENDING, issue_token, revoke_token
from console.actions.workspaces import NotAllowed
from console.actor import Actor
from console.models import Scope, Token, WorkspaceRowQuerySet

from .loaders import WorkspaceRequest, workspace_page

EXPIRIES = {"30": "In 30 days", "90": "In 90 days", "365": "In 1 year", "never": "Never"}
SOON = timedelta(days=7)


def _tokens(request: WorkspaceRequest) -> WorkspaceRowQuerySet:
    tokens: WorkspaceRowQuerySet = Token.objects.for_workspace(request.workspace)
    return tokens if request.membership.manages else tokens.filter(user=request.user)


@workspace_page
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def token_list(request: WorkspaceRequest) -> HttpResponse:
    """POST makes a token and shows its secret in the reply itself: it is stored nowhere, so nothing can redirect."""
    if request.method == "POST":
        return _make(request)
    asked = request.GET.get("scope", "")
    return _page(
        request, {"scopes": [asked] if asked in Scope.values else [Scope.RUNS_READ], "expires": "90"}
    )


def _make(request: WorkspaceRequest) -> HttpResponse:
    name = request.POST.get("name", "")
    form: dict[str, Any] = {
        "name": name,
        "scopes": request.POST.getlist("scopes"),
        "expires": request.POST.get("expires", "90"),
        "spend_ceiling": request.POST.get("spend_ceiling", "").strip(),
    }
    if form["expires"] not in EXPIRIES:
        return _page(request, form, errors={"expires": "Choose one of the list."}, status=422)
    days = form["expires"]
    try:
        token, secret = issue_token(
            workspace=request.workspace,
            user=request.user,
            name=name,
            scopes=form["scopes"],
            expires_in=None if days == "never" else timedelta(days=int(days)),
            actor=Actor.person(request.user),
            spend_ceiling=_dollars(form["spend_ceiling"]),
        )
    except ValidationError as refused:
        return _page(request, form, errors={k: v[0] for k, v in refused.message_dict.items()}, status=422)
    except NotAllowed as refused:
        return _page(request, form, errors={"scopes": str(refused)}, status=403)
    return _page(
        request, {"scopes": [Scope.RUNS_READ], "expires": "90"}, made=token, secret=secret, status=201
    )


def _dollars(text: str) -> Decimal | None:
    """None for an empty field. ValidationError for what is no amount in whole cents."""
    if not text:
        return None
    if not re.fullmatch(r"\d{1,8}(\.\d{1,2})?", text, re.ASCII):
        raise ValidationError({"spend_ceiling": "An amount in dollars, such as 25 or 7.50."})
    return Decimal(text)


def _page(request: WorkspaceRequest, form: dict[str, Any], status: int = 200, **more: Any) -> HttpResponse:
    tokens = list(_tokens(request).select_related("user", "budget"))
    # Live ones first; within them the newest, as the model orders.
    tokens.sort(key=lambda token: not token.is_live)
    now = timezone.now()
    context = {
        "tokens": tokens,
        "live": sum(token.is_live for token in tokens),
        "form": form,
        "scopes": [
            (
                scope.value,
                scope.label,
                scope in SPENDING,
                scope != Scope.WORKERS_CONNECT or request.membership.manages,
            )
            for scope in Scope
        ],
        "expiries": [
            (days, label, None if days == "never" else now + timedelta(days=int(days)))
            for days, label in EXPIRIES.items()
        ],
        "soon": now + SOON,
        "name_length": NAME_LENGTH,
        **more,
    }
    return render(request, "workspace/tokens.html", context, status=status)


@workspace_page
@require_POST
def revoke(request: WorkspaceRequest, token_key: str) -> HttpResponseRedirect:
    token = _tokens(request).select_related("workspace", "user").filter(token_key=token_key).first()
    if token is None:
        raise Http404("No such token.")
    revoke_token(token, actor=Actor.person(request.user))
    messages.info(request, f"{token.name} is revoked. Whoever uses it is refused from now on.")
    return redirect("token-list", request.workspace.slug)
