"""The pages outside every workspace: the front door and the theme."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from console.context import THEMES
from console.models import User, Workspace

from .icons import icons
from .invitations import invitation
from .workspace import new_workspace

YEAR = 31_536_000


@require_safe
@login_required
def home(request: HttpRequest) -> HttpResponse:
    """To the workspace the person was in last, else their first; whoever has none is told how to get one."""
    user: User = request.user  # type: ignore[assignment]
    mine = Workspace.objects.of(user)
    workspace = (
        mine.filter(pk=user.last_workspace_id or 0).first() or mine.order_by("memberships__joined_at").first()
    )
    if workspace is None:
        return render(request, "no_workspace.html")
    return redirect("workspace-home", workspace.slug)


@require_POST
def theme(request: HttpRequest) -> HttpResponseRedirect:
    """Switch light and dark, kept in a cookie that the server reads: no flash of the other one."""
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}):
        back = reverse("home")
    now = request.COOKIES.get("theme")
    reply = HttpResponseRedirect(back)
    reply.set_cookie(
        "theme",
        THEMES[0] if now == THEMES[1] else THEMES[1],
        max_age=YEAR,
        secure=request.is_secure(),
        samesite="Lax",
    )
    return reply


urlpatterns: list[URLPattern] = [
    path("", home, name="home"),
    path("theme/", theme, name="theme"),
    path("invitations/<str:secret>/", invitation, name="invitation"),
    path("workspaces/new/", new_workspace, name="workspace-new"),
    path("icons.svg", icons, name="icons"),
]
