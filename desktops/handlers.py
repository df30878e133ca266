"""What an assignment means is not this app's business: each kind has a handler, registered by who stands above."""

from __future__ import annotations

from typing import Any, Protocol

from desktops.models import Assignment, Computer


class BadRecord(ValueError):
    """The record cannot be applied; the worker is told why."""


class Handler(Protocol):
    """All methods run inside the transaction that applies the record, under `lock`."""

    def lock(self, subject: Any) -> None:
        """Lock what the assignment belongs to, before the assignment itself is locked (one order everywhere)."""

    def record(self, assignment: Assignment, record: dict[str, Any], computer: Computer | None) -> bool:
        """Apply one record; True when it was the last of the assignment. Raises BadRecord."""

    def lost(self, assignment: Assignment) -> None:
        """The lease ran out: whatever comes later is refused."""

    def computer_settled(self, assignment: Assignment, computer: Computer, cost: Any) -> None:
        """A computer of the assignment is gone and paid for."""


_handlers: dict[str, Handler] = {}


def register(kind: str, handler: Handler) -> None:
    _handlers[kind] = handler


def handler_for(kind: str) -> Handler:
    return _handlers[kind]
