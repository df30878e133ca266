from .audit import AuditEntry
from .blob import Blob
from .budget import Budget, LedgerEntry
from .idempotency import IdempotentReply
from .tally import LedgerTally
from .token import Scope, Token
from .user import User
from .workspace import Membership, Workspace, WorkspaceRowQuerySet

__all__ = [
    "AuditEntry",
    "Blob",
    "Budget",
    "IdempotentReply",
    "LedgerEntry",
    "LedgerTally",
    "Membership",
    "Scope",
    "Token",
    "User",
    "Workspace",
    "WorkspaceRowQuerySet",
]
