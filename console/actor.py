"""Who does something. Every verb takes one, keyword-only, and every history row names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from console.models import Budget, Token, User


@dataclass(frozen=True)
class Actor:
    """`label` is what history shows; `user` is the person behind it, if there is one.

    `budget` is the level of the budget tree that what it starts is paid from, when that is not the workspace's own.
    """

    kind: Literal["user", "token", "operator", "system", "nobody"]
    label: str
    user: User | None = None
    budget: Budget | None = None

    @classmethod
    def person(cls, user: User) -> Self:
        return cls("user", str(user), user)

    @classmethod
    def token(cls, token: Token) -> Self:
        return cls("token", f"{token.user} by token {token.name}", token.user, token.budget)

    @classmethod
    def operator(cls, user: User) -> Self:
        """Platform staff acting from the admin, in a workspace that need not be theirs."""
        return cls("operator", "the operator", user)

    @classmethod
    def system(cls, label: str = "Deskyard") -> Self:
        return cls("system", label)

    @classmethod
    def nobody(cls) -> Self:
        """Somebody at the sign-in page who has not shown who they are."""
        return cls("nobody", "Somebody not signed in")
