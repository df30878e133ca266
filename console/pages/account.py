"""The addresses of an account's own pages. Those of allauth that are offered are named one by one."""

from __future__ import annotations

from typing import cast

from allauth.account import views
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, URLResolver, include, path, re_path
from django.views.decorators.http import require_POST, require_safe

from console.actions.account import set_run_mail
from console.actor import Actor
from console.models import User


@require_safe
@login_required
def email(request: HttpRequest) -> HttpResponse:
    """Which e-mail the account has. The operator changes it: people are known to each other by it."""
    return render(request, "account/email.html")


@require_POST
@login_required
def run_mail(request: HttpRequest) -> HttpResponse:
    """Whether mail comes when a run of theirs has ended: `run_mail=on` or `off`."""
    user = cast(User, request.user)
    set_run_mail(user, wanted=request.POST.get("run_mail") == "on", actor=Actor.person(user))
    words = "Mail comes when a run of yours ends." if user.run_mail else "No mail about runs comes."
    messages.success(request, words)
    return redirect("account_email")


urlpatterns: list[URLPattern | URLResolver] = [
    path("login/", views.login, name="account_login"),
    path("logout/", views.logout, name="account_logout"),
    path("inactive/", views.account_inactive, name="account_inactive"),
    path("signup/", views.signup, name="account_signup"),
    path("reauthenticate/", views.reauthenticate, name="account_reauthenticate"),
    path("email/", email, name="account_email"),
    path("email/runs/", run_mail, name="account_run_mail"),
    path("password/change/", views.password_change, name="account_change_password"),
    path("password/set/", views.password_set, name="account_set_password"),
    path("password/reset/", views.password_reset, name="account_reset_password"),
    path("password/reset/done/", views.password_reset_done, name="account_reset_password_done"),
    path(
        "password/reset/key/done/",
        views.password_reset_from_key_done,
        name="account_reset_password_from_key_done",
    ),
    re_path(
        r"^password/reset/key/(?P<uidb36>[0-9A-Za-z]+)-(?P<key>.+)/$",
        views.password_reset_from_key,
        name="account_reset_password_from_key",
    ),
    path("2fa/", include("allauth.mfa.urls")),
    path("sessions/", include("allauth.usersessions.urls")),
]
