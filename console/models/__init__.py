from .audit import AuditEntry
from .blob import Blob
from .budget import Budget, LedgerEntry
from .idempotency import IdempotentReply
from .invitation import Invitation
from .signing import PublishedKey
from .tally import LedgerTally
from .token import Scope, Token
from .user import User
from .webhook import Delivery, DeliveryTry, Webhook
from .workspace import Membership, Workspace, WorkspaceRowQuerySet

__all__ = [
    "AuditEntry",
    "Blob",
    "Budget",
    "Delivery",
    "DeliveryTry",
    "IdempotentReply",
    "Invitation",
    "LedgerEntry",
    "LedgerTally",
    "Membership",
    "PublishedKey",
    "Scope",
    "Token",
    "User",
    "Webhook",
    "Workspace",
    "WorkspaceRowQuerySet",
]
