"""Invitations: the page behind the link, for people who need not have an account."""

from __future__ import annotations

from typing import Any

from allauth.account.utils import perform_login
from allauth.core.internal import ratelimit
from django.conf import settings
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from console.actions.invitations import (
    HasAccount,
    InvitationGone,
    accept_as_new,
    accept_invitation,
    find_invitation,
    mail_invitation,
)
from console.actions.workspaces import AlreadyMember
from console.models import Invitation, User


def link_of(secret: str) -> str:
    return settings.PUBLIC_URL + reverse("invitation", args=[secret])


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, secret: str) -> HttpResponseBase:
    """GET says who invites whom, and as what. POST joins: with the account of the session, or with a new one."""
    if not _may_guess(request, dry_run=True):
        return ratelimit.respond_429(request)
    found = find_invitation(secret)
    if found is None:
        return _gone(request)
    if request.user.is_authenticated:
        return _with_account(request, request.user, found, secret)
    return _with_new_account(request, found, secret)


def _may_guess(request: HttpRequest, *, dry_run: bool = False) -> bool:
    """Counted like wrong passwords. The public door to allauth's counters leaves out GET, by which one guesses here."""
    return bool(
        ratelimit.consume(
            request, app="allauth.account", action="invitation", limit_get=True, dry_run=dry_run
        )
    )


def _gone(request: HttpRequest) -> HttpResponse:
    """The same for a link that never was; guesses are counted as those at the sign-in page are."""
    _may_guess(request)
    return render(request, "workspace/invitation_gone.html", status=404)


def _with_account(request: HttpRequest, user: User, found: Invitation, secret: str) -> HttpResponseBase:
    if found.workspace.memberships.filter(user=user).exists():
        messages.info(request, f"You are a member of {found.workspace} already.")
        return redirect("workspace-home", found.workspace.slug)
    if request.method == "POST":
        try:
            accept_invitation(secret, user=user)
        except InvitationGone:
            return _gone(request)
        except AlreadyMember:
            pass  # sent twice: they are in, which is what was asked
        messages.success(request, f"You are in {found.workspace} now, as {found.get_role_display().lower()}.")
        return redirect("workspace-home", found.workspace.slug)
    same = user.email.lower() == found.email.lower()
    return render(request, "workspace/invitation.html", {"invitation": found, "same": same})


def _with_new_account(request: HttpRequest, found: Invitation, secret: str) -> HttpResponseBase:
    context: dict[str, Any] = {
        "invitation": found,
        "has_account": User.objects.filter(email__iexact=found.email).exists(),
        "form": {"name": request.POST.get("name", "")},
        "errors": {},
    }
    if request.method != "POST":
        return render(request, "workspace/invitation.html", context)
    try:
        user = accept_as_new(
            secret,
            name=request.POST.get("name", "").replace("\x00", ""),
            password=request.POST.get("password", ""),
        )
    except InvitationGone:
        return _gone(request)
    except HasAccount as refused:
        context |= {"has_account": True, "errors": {"email": [str(refused)]}}
    except ValidationError as refused:
        context["errors"] = refused.message_dict
    else:
        reply: HttpResponseBase = perform_login(
            request, user, redirect_url=reverse("workspace-home", args=[found.workspace.slug])
        )
        return reply
    return render(request, "workspace/invitation.html", context, status=422)


def tell(request: HttpRequest, invited: Invitation, link: str) -> bool:
    """Mail the link where a server is set, and say what came of it. True when it was mailed."""
    mailed = mail_invitation(invited, link)
    if settings.EMAIL_HOST and not mailed:
        messages.error(request, "The mail server did not take the mail. Pass the link on yourself.")
    return mailed
