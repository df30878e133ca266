"""The last record of an assignment that ends without its work having said so."""

from __future__ import annotations

from datetime import UTC, datetime

from desktops.protocol.attempt import AttemptEnded, InvalidReason, PrefixEnded
from desktops.protocol.hold import HoldEnded

LastRecord = AttemptEnded | PrefixEnded | HoldEnded

LAST_RECORDS: dict[str, type[LastRecord]] = {
    "attempt": AttemptEnded,
    "rollout": AttemptEnded,
    "prefix": PrefixEnded,
    "computer": HoldEnded,
}


def ended(kind: str, detail: str, reason: InvalidReason | None) -> LastRecord:
    """Without a reason it was just stopped. `kind` is the assignment's."""
    return LAST_RECORDS[kind](
        at=datetime.now(UTC),
        ok=False,
        invalid_reasons=[reason] if reason else [],
        detail=detail,
        stopped=reason is None,
    )
