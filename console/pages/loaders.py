"""One loader per object and access level: 404 and 403 are decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase, QueryDict
from django.utils import timezone

from console.models import Membership, User, Workspace

View = Callable[..., HttpResponseBase]


class WorkspaceRequest(HttpRequest):
    """What a view under `@workspace_page` gets."""

    user: User
    workspace: Workspace
    membership: Membership
    now: datetime  # one for all sums of a page


def workspace_or_404(request: HttpRequest, slug: str) -> tuple[Workspace, Membership]:
    """The workspace and what the signed-in person is in it; an outsider does not learn that it exists."""
    membership = (
        Membership.objects.select_related("workspace")
        .filter(workspace__slug=slug, user_id=request.user.pk)
        .first()
    )
    if membership is None:
        raise Http404("No such workspace.")
    return membership.workspace, membership


def workspace_page(view: Callable[..., HttpResponseBase]) -> View:
    """Sign-in, then membership: sets `request.workspace` and `request.membership`, drops the argument."""

    @login_required
    @wraps(view)
    def page(request: HttpRequest, workspace: str, **kwargs: Any) -> HttpResponseBase:
        request.workspace, request.membership = workspace_or_404(request, workspace)  # type: ignore[attr-defined]
        request.membership.user = request.user  # type: ignore[attr-defined]
        request.now = timezone.now()  # type: ignore[attr-defined]
        _remember(request)
        _without_nul(request, kwargs)
        return view(request, **kwargs)

    return page


def _remember(request: HttpRequest) -> None:
    """One write whenever somebody comes from another workspace."""
    user, workspace = request.user, request.workspace  # type: ignore[attr-defined]
    if isinstance(user, User) and user.last_workspace_id != workspace.pk:
        User.objects.filter(pk=user.pk).update(last_workspace=workspace)
        user.last_workspace = workspace


def _without_nul(request: HttpRequest, named: dict[str, Any]) -> None:
    """No text of the database may hold a NUL, and no browser's field does: what was typed has � in its place, as HTML
    would show it, so each field says itself whether it takes that. In an address it names nothing."""
    if any("\x00" in str(value) for value in named.values()):
        raise Http404("Nothing has a name with a NUL in it.")
    for method in ("GET", "POST"):
        typed: QueryDict = getattr(request, method)
        if any("\x00" in text for _, texts in typed.lists() for text in texts):
            mended = typed.copy()
            for name, texts in typed.lists():
                mended.setlist(name, [str(text).replace("\x00", "\ufffd") for text in texts])
            setattr(request, method, mended)


def managers_only(view: Callable[..., HttpResponseBase]) -> View:
    """Under `@workspace_page`: a member who is neither admin nor owner gets 403."""

    @wraps(view)
    def page(request: WorkspaceRequest, **kwargs: Any) -> HttpResponseBase:
        if not request.membership.manages:
            raise PermissionDenied("Only admins and owners of this workspace may do this.")
        return view(request, **kwargs)

    return page
