"""What an assignment means is not this app's business: each kind has a handler, registered by who stands above."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from pydantic import TypeAdapter

from desktops.models import Assignment, Computer


class BadRecord(ValueError):
    """The record cannot be applied; the worker is told why."""


class UnknownKind(LookupError):
    """Nobody in this console knows what assignments of this kind mean."""


class Batch(Protocol):
    """Assignments of one handler, loaded and locked, while records of them are applied one after another."""

    def record(self, assignment: Assignment, record: Any, computer: Computer | None) -> bool:
        """Apply one record; True when it was the last of the assignment. Raises BadRecord."""

    def computer_settled(self, assignment: Assignment, computer: Computer, cost: Any) -> None:
        """A computer of the assignment is gone and paid for."""

    def computer_told_late(self, assignment: Assignment, computer: Computer) -> None:
        """That a computer existed was first heard when the assignment was over."""

    def lost(self, assignment: Assignment) -> None:
        """The lease ran out: whatever comes later is refused."""


class Handler(Protocol):
    """All methods run inside the transaction that changes the assignments.

    `begins_anew`: another worker could do the same from its beginning, and nothing would be missing.
    """

    begins_anew: bool

    def lock(self, subject: Any) -> None:
        """Lock what the assignment belongs to, before the assignment itself is locked (one order everywhere)."""

    def batch(self, assignments: Collection[UUID]) -> AbstractContextManager[Batch]:
        """Lock what they belong to and load it; what the batch has changed is written when the context ends well."""


class Kind(NamedTuple):
    """A handler may have several kinds, of which it is given what is in one batch together."""

    handler: Handler
    records: TypeAdapter[Any]


_kinds: dict[str, Kind] = {}


def register(kind: str, handler: Handler, records: TypeAdapter[Any]) -> None:
    """`records`: what a worker may report of assignments of this kind."""
    _kinds[kind] = Kind(handler, records)


def handler_for(kind: str) -> Handler:
    """Raises UnknownKind."""
    return _kind(kind).handler


def records_of(kind: str) -> TypeAdapter[Any]:
    """Raises UnknownKind."""
    return _kind(kind).records


def _kind(kind: str) -> Kind:
    try:
        return _kinds[kind]
    except KeyError:
        known = ", ".join(sorted(_kinds)) or "none"
        raise UnknownKind(f"Nobody handles assignments of kind {kind!r}. Known: {known}.") from None
