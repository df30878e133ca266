"""An attempt's three columns as ranges of the indexes that lists of attempts are read by."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from django.db.models import Q

from .models import Attempt

NONE = "none"


def ranges(statuses: Iterable[str], verifiers: Collection[str] = (), outcome: str | None = None) -> list[Q]:
    """What has one of these statuses, one of these verifier values (none given: any) and this outcome ("none": no
    verdict), as ranges that do not overlap and are each in order of number."""
    if outcome in Attempt.Outcome.values:
        if verifiers and Attempt.Verifier.VALID not in verifiers:
            return [Q(pk__in=[])]  # only a valid attempt has an outcome
        return [Q(status=status, outcome=outcome) for status in statuses]
    asked = [value for value in Attempt.Verifier.values if not verifiers or value in verifiers]
    if outcome == NONE:
        asked = [value for value in asked if value != Attempt.Verifier.VALID]
    both = [Q(status=status, verifier=verifier) for status in statuses for verifier in asked]
    return both or [Q(pk__in=[])]
