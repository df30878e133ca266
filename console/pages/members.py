"""Members: who belongs to the workspace and as what. Everybody sees the list; admins and owners change it."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from console.actions.workspaces import (
    AlreadyMember,
    LastOwner,
    NotAllowed,
    add_member,
    change_role,
    remove_member,
)
from console.actor import Actor
from console.models import Membership, User

from .loaders import WorkspaceRequest, managers_only, workspace_page

ROLES = {
    Membership.Role.OWNER: "Everything, and makes other owners",
    Membership.Role.ADMIN: "Members, tokens, budget, workers, any run",
    Membership.Role.MEMBER: "Sees everything, makes runs, cancels own ones",
}
ORDER = list(ROLES)


@workspace_page
@require_http_methods(["GET", "HEAD", "POST"])
def member_list(request: WorkspaceRequest) -> HttpResponseBase:
    if request.method == "POST":
        return _add(request)
    return _page(request, {"role": Membership.Role.MEMBER})


@managers_only
def _add(request: WorkspaceRequest) -> HttpResponseBase:
    form = {"email": request.POST.get("email", "").strip(), "role": request.POST.get("role", "")}
    try:
        validate_email(form["email"])
    except ValidationError:
        return _page(request, form, {"email": "This is not an e-mail address."}, status=422)
    user = User.objects.filter(email__iexact=form["email"], is_active=True).first()
    if user is None:
        why = "No account has this e-mail. The platform operator makes accounts in the administration."
        return _page(request, form, {"email": why}, status=422)
    try:
        added = add_member(request.workspace, user=user, role=form["role"], actor=Actor.person(request.user))
    except AlreadyMember as refused:
        return _page(request, form, {"email": str(refused)}, status=422)
    except ValidationError as refused:
        return _page(request, form, {k: v[0] for k, v in refused.message_dict.items()}, status=422)
    except NotAllowed as refused:
        return _page(request, form, {"role": str(refused)}, status=403)
    messages.success(request, f"{user} is a member now, as {added.get_role_display().lower()}.")
    return redirect("member-list", request.workspace.slug)


def _page(
    request: WorkspaceRequest, form: dict[str, Any], errors: dict[str, str] | None = None, status: int = 200
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
    context = {"rows": rows, "roles": roles, "all_roles": ROLES, "form": form, "errors": errors or {}}
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
