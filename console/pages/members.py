"""Members: who belongs to the workspace and as what. Everybody sees the list; admins and owners change it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from console.actions.invitations import InvitationGone, invite, is_backed, renew_invitation, revoke_invitation
from console.actions.workspaces import (
    AlreadyMember,
    LastOwner,
    NotAllowed,
    change_role,
    remove_member,
)
from console.actor import Actor
from console.models import Invitation, Membership

from .invitations import link_of, tell
from .loaders import WorkspaceRequest, managers_only, workspace_page

ROLES = {
    Membership.Role.OWNER: "Everything, and makes other owners",
    Membership.Role.ADMIN: "Members, everybody’s tokens, budget, workers, webhooks, audit log, settings, any run",
    Membership.Role.MEMBER: (
        "Sees runs, tasks, desktops, workers, members and the budget; makes runs and cancels own ones, has own tokens. "
        "Neither webhooks nor the audit log nor settings"
    ),
}
ORDER = list(ROLES)


@never_cache
@workspace_page
@require_http_methods(["GET", "HEAD", "POST"])
def member_list(request: WorkspaceRequest) -> HttpResponseBase:
    """POST invites, and shows the link in the reply itself: it is kept nowhere, so nothing can redirect."""
    if request.method == "POST":
        return _invite(request)
    return members_page(request)


@managers_only
def _invite(request: WorkspaceRequest) -> HttpResponseBase:
    form = {"email": request.POST.get("email", "").strip(), "role": request.POST.get("role", "")}
    try:
        invited, secret = invite(workspace=request.workspace, actor=Actor.person(request.user), **form)
    except AlreadyMember as refused:
        return members_page(request, form, {"email": str(refused)}, status=422)
    except ValidationError as refused:
        return members_page(request, form, {k: v[0] for k, v in refused.message_dict.items()}, status=422)
    except NotAllowed as refused:
        return members_page(request, form, {"role": str(refused)}, status=403)
    link = link_of(secret)
    return members_page(request, made=invited, link=link, mailed=tell(request, invited, link), status=201)


def members_page(
    request: WorkspaceRequest,
    form: dict[str, str] | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    members = list(Membership.objects.for_workspace(request.workspace).select_related("user"))
    members.sort(key=lambda one: (ORDER.index(Membership.Role(one.role)), str(one.user).lower()))
    owners = sum(one.role == Membership.Role.OWNER for one in members)
    acting = request.membership
    rows = []
    for one in members:
        mine = one.user_id == request.user.pk
        out_of_reach = one.role == Membership.Role.OWNER and acting.role != Membership.Role.OWNER
        last = one.role == Membership.Role.OWNER and owners == 1
        rows.append(
            {
                "membership": one,
                "mine": mine,
                "last_owner": last,
                "may_change": acting.manages and not out_of_reach and not last,
                "may_remove": (mine or (acting.manages and not out_of_reach)) and not last,
            }
        )
    roles = [
        (role, role.label, words)
        for role, words in ROLES.items()
        if role != Membership.Role.OWNER or acting.role == Membership.Role.OWNER
    ]
    pending = Invitation.objects.for_workspace(request.workspace).pending()
    if not acting.manages:
        pending = pending.none()
    context = {
        "rows": rows,
        "roles": roles,
        "all_roles": ROLES,
        "form": form or {"role": Membership.Role.MEMBER},
        "errors": errors or {},
        "invitations": [
            (one, one.role != Membership.Role.OWNER or acting.role == Membership.Role.OWNER, is_backed(one))
            for one in pending.select_related("workspace", "invited_by")
        ],
        **more,
    }
    return render(request, "workspace/members.html", context, status=status)


def membership_or_404(request: WorkspaceRequest, user_id: int) -> Membership:
    found = Membership.objects.for_workspace(request.workspace).filter(user_id=user_id)
    membership: Membership | None = found.select_related("user", "workspace").first()
    if membership is None:
        raise Http404("No such member.")
    return membership


@workspace_page
@require_POST
@managers_only
def role(request: WorkspaceRequest, user_id: int) -> HttpResponse:
    membership = membership_or_404(request, user_id)
    try:
        changed = change_role(membership, role=request.POST.get("role", ""), actor=Actor.person(request.user))
    except (LastOwner, NotAllowed) as refused:
        messages.error(request, str(refused))
    except ValidationError as refused:
        messages.error(request, " ".join(refused.messages))
    else:
        messages.success(request, f"{changed.user} is {changed.get_role_display().lower()} now.")
    return redirect("member-list", request.workspace.slug)


@workspace_page
@require_POST
def remove(request: WorkspaceRequest, user_id: int) -> HttpResponse:
    """Admins and owners remove others; everybody may leave."""
    membership = membership_or_404(request, user_id)
    leaving = membership.user_id == request.user.pk
    try:
        remove_member(membership, actor=Actor.person(request.user))
    except (LastOwner, NotAllowed) as refused:
        messages.error(request, str(refused))
        return redirect("member-list", request.workspace.slug)
    if leaving:
        return redirect("home")
    messages.info(request, f"{membership.user} is no member any more; their tokens here are revoked.")
    return redirect("member-list", request.workspace.slug)


def invitation_or_404(request: WorkspaceRequest, pk: int) -> Invitation:
    pending = Invitation.objects.for_workspace(request.workspace).pending()
    found: Invitation | None = pending.select_related("workspace").filter(pk=pk).first()
    if found is None:
        raise Http404("No such invitation.")
    return found


@workspace_page
@require_POST
@managers_only
def renew_link(request: WorkspaceRequest, pk: int) -> HttpResponseBase:
    """Shows the new link in the reply itself, for it is kept nowhere."""
    try:
        renewed, secret = renew_invitation(invitation_or_404(request, pk), actor=Actor.person(request.user))
    except NotAllowed as refused:
        raise PermissionDenied(str(refused)) from refused
    except InvitationGone as refused:
        raise Http404(str(refused)) from refused
    link = link_of(secret)
    return members_page(request, made=renewed, link=link, mailed=tell(request, renewed, link), status=201)


@workspace_page
@require_POST
@managers_only
def revoke_link(request: WorkspaceRequest, pk: int) -> HttpResponseBase:
    found = invitation_or_404(request, pk)
    try:
        revoke_invitation(found, actor=Actor.person(request.user))
    except InvitationGone as refused:
        raise Http404(str(refused)) from refused
    messages.info(request, f"The invitation of {found.email} is revoked; its link does nothing any more.")
    return redirect("member-list", request.workspace.slug)
