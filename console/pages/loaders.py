"""One loader per object and access level: 404 and 403 are decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase

from console.models import Membership, User, Workspace

View = Callable[..., HttpResponseBase]


class WorkspaceRequest(HttpRequest):
    """What a view under `@workspace_page` gets."""

    user: User
    workspace: Workspace
    membership: Membership


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
        _remember(request)
        _refuse_nul(request, kwargs)
        return view(request, **kwargs)

    return page


def _remember(request: HttpRequest) -> None:
    """One write whenever somebody comes from another workspace."""
    user, workspace = request.user, request.workspace  # type: ignore[attr-defined]
    if isinstance(user, User) and user.last_workspace_id != workspace.pk:
        User.objects.filter(pk=user.pk).update(last_workspace=workspace)
        user.last_workspace = workspace


def _refuse_nul(request: HttpRequest, named: dict[str, Any]) -> None:
    """No browser's field holds a NUL, and no text of the database may: 400 here, for every page and form."""
    typed = [text for query in (request.GET, request.POST) for _, texts in query.lists() for text in texts]
    if any("\x00" in str(text) for text in (*typed, *named.values())):
        raise BadRequest("It holds a NUL character.")


def managers_only(view: Callable[..., HttpResponseBase]) -> View:
    """Under `@workspace_page`: a member who is neither admin nor owner gets 403."""

    @wraps(view)
    def page(request: WorkspaceRequest, **kwargs: Any) -> HttpResponseBase:
        if not request.membership.manages:
            raise PermissionDenied("Only admins and owners of this workspace may do this.")
        return view(request, **kwargs)

    return page
