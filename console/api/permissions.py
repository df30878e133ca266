"""What a caller may do: a view names a scope a method, a token must have it."""

from __future__ import annotations

from typing import Any

from rest_framework import status
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from console.models import Scope, Token

from .problems import Problem


class HasScope(BasePermission):
    """`scopes = {"GET": Scope.RUNS_READ, …}` on the view; HEAD counts as GET.

    A person's session has every scope but workers:connect. A view that names no scopes is closed to everybody.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        if not request.user:  # asking for the user is what authenticates; without one it is None
            return False
        scopes: dict[str, Scope] = view.scopes
        method = request.method or ""
        needed = scopes.get(method) or (scopes.get("GET") if method == "HEAD" else None)
        if needed is None:
            return bool(scopes)  # no such method here: the view answers 405
        if isinstance(request.auth, Token):
            held, who = request.auth.scopes, "This token"
        else:
            held, who = [scope.value for scope in Scope if scope is not Scope.WORKERS_CONNECT], "A session"
        if needed not in held:
            problem = f"{who} lacks the scope {needed.value}."
            raise Problem(status.HTTP_403_FORBIDDEN, "scope_missing", problem)
        return True
