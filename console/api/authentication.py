"""Who calls: a bearer token bound to one workspace, or a signed-in person who names the workspace.

Both set `request.workspace`. A workspace is named by `?workspace=` slug; a token that names another than its own is
refused, and a person sees a workspace that is not theirs as absent.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db.models import Exists, OuterRef, Q
from django.http import HttpRequest, HttpResponse, HttpResponseForbidden
from django.middleware.csrf import CsrfViewMiddleware
from django.utils import timezone
from knox.auth import TokenAuthentication
from knox.crypto import hash_token
from rest_framework import status
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from console.models import Membership, Token, User, Workspace

from .problems import Problem

USE_IS_NOTED_EVERY: Final = timedelta(minutes=1)


def _unauthenticated(code: str, detail: str) -> Problem:
    problem = Problem(status.HTTP_401_UNAUTHORIZED, code, detail)
    problem.auth_header = "Bearer"
    return problem


class WorkspaceTokenAuthentication(TokenAuthentication):
    """`Authorization: Bearer dy_…`. Expired and revoked tokens are refused and kept, for the Tokens page."""

    def authenticate(self, request: Request) -> tuple[User, Token] | None:
        header = request.headers.get("Authorization", "")
        scheme, _, secret = header.partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = self.live_token(secret.strip())
        named = request.query_params.get("workspace")
        if named is not None and named != token.workspace.slug:
            raise Problem(
                status.HTTP_403_FORBIDDEN,
                "other_workspace",
                "This token belongs to another workspace than the one named.",
            )
        self._note_use(token)
        request.workspace = token.workspace  # type: ignore[attr-defined]
        return token.user, token

    def live_token(self, secret: str) -> Token:
        membership = Membership.objects.filter(workspace=OuterRef("workspace"), user=OuterRef("user"))
        token: Token | None = (
            Token.objects.filter(digest=hash_token(secret.encode("utf-8", "replace").decode()))
            .select_related("user", "workspace")
            .annotate(belongs=Exists(membership))
            .first()
        )
        if token is None:
            raise _unauthenticated("token_unknown", "This is no token of this console.")
        if token.revoked_at is not None:
            raise _unauthenticated("token_revoked", "This token was revoked.")
        if not token.is_live:
            raise _unauthenticated("token_expired", "This token has expired.")
        if not token.user.is_active or not token.belongs:
            raise _unauthenticated("token_orphaned", "Whoever made this token is no longer in its workspace.")
        return token

    def _note_use(self, token: Token) -> None:
        """At most one write a minute: a busy client must not turn each read into a write."""
        now = timezone.now()
        stale = now - USE_IS_NOTED_EVERY
        if token.last_used_at is None or token.last_used_at < stale:
            unseen = Q(last_used_at=None) | Q(last_used_at__lt=stale)
            Token.objects.filter(unseen, pk=token.pk).update(last_used_at=now)


def _unused(request: HttpRequest) -> HttpResponse:
    raise AssertionError("the check of the CSRF token calls no view")


class _CsrfCheck(CsrfViewMiddleware):
    def _reject(self, request: HttpRequest, reason: str) -> HttpResponseForbidden:
        return HttpResponseForbidden(reason)  # the bare reason in place of a page


class WorkspaceSessionAuthentication(BaseAuthentication):
    """The browser's session, for the browsable page. Whoever is in one workspace only need not name it."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        user = getattr(request._request, "user", None)
        if user is None or not user.is_active:
            return None
        self._enforce_csrf(request)
        request.workspace = self._workspace(user, request.query_params.get("workspace"))  # type: ignore[attr-defined]
        return user, None

    def _enforce_csrf(self, request: Request) -> None:
        check = _CsrfCheck(_unused)
        check.process_request(request._request)
        refusal = check.process_view(request._request, _unused, (), {})
        if refusal:
            reason = refusal.content.decode()
            raise Problem(status.HTTP_403_FORBIDDEN, "csrf_failed", f"CSRF check failed: {reason}")

    def _workspace(self, user: User, named: str | None) -> Workspace:
        mine = Workspace.objects.of(user).order_by("name", "pk")
        if named is not None:
            found = mine.filter(slug=named).first() if "\x00" not in named else None
            if found is None:
                raise Problem(status.HTTP_404_NOT_FOUND, "not_found", "There is no such workspace.")
            return found
        known = list(mine[:2])
        if len(known) != 1:
            raise Problem(
                status.HTTP_403_FORBIDDEN,
                "workspace_not_named",
                "Name the workspace: ?workspace=<slug>." if known else "You are in no workspace yet.",
            )
        return known[0]
