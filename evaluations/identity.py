"""What makes two rollouts the same: the SHA-256 of everything that may change a verdict, and of nothing else."""

from __future__ import annotations

import hashlib
from typing import Any, Final, TypedDict

from desktops.worker.task import canonical_json

VERSION: Final = 1


class Envelope(TypedDict, total=False):
    """What an identity is made of. Workspace, mission, labels, keys, runners, batch, durations, expiry and profile are
    not among it: they change what a rollout costs or where it is filed, not what it shows.

    `command` and `env` (values of plain variables, names of secrets) are of the kind `task` only; `chip` only where
    bit-exact repetition is declared, which another chip would break; `group` is the state that a group is forked from.
    """

    kind: str
    environment: str  # digest
    spec: Any
    seed: int | None
    judge: str
    policy: str
    command: str
    env: dict[str, Any]
    chip: str
    group: str


def identity(envelope: Envelope) -> str:
    """`v1:` and 64 hex digits. Left out and null are the same."""
    said = {key: value for key, value in envelope.items() if value is not None}
    digest = hashlib.sha256(canonical_json({"version": VERSION, **said})).hexdigest()
    return f"v{VERSION}:{digest}"
