"""Two rollouts are the same exactly when all that may change a verdict is."""

from __future__ import annotations

from typing import Any

import pytest

from evaluations.identity import Envelope, identity

ENVELOPE: Envelope = {
    "kind": "task",
    "environment": f"sha256:{'ab' * 32}",
    "spec": {"task_set": "deskyard-basics", "task": "rename-folder"},
    "seed": 7,
    "judge": "osworld@v1",
    "policy": "policy-a",
    "command": "python run.py",
    "env": {"MODEL": "m", "KEY": {"secret": "KEY"}},
}


def test_the_same_envelope_has_one_identity_whatever_the_order_of_its_keys() -> None:
    turned: Any = dict(reversed(ENVELOPE.items()))
    assert identity(ENVELOPE) == identity(turned)
    assert identity(ENVELOPE).startswith("v1:")
    assert len(identity(ENVELOPE)) == 3 + 64


def test_it_stays_what_it_is_from_version_to_version() -> None:
    """Memo and sets rest on it: a change of this value is a change of VERSION."""
    assert identity(ENVELOPE) == "v1:06b6e7982c3139f7738fac18cb2e5c38697cb53271d9d32852e25dc4609296a0"


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "sandbox"},
        {"environment": f"sha256:{'cd' * 32}"},
        {"spec": {"task_set": "deskyard-basics", "task": "make-folders"}},
        {"seed": 8},
        {"seed": None},
        {"judge": "goal-region@v1"},
        {"policy": "policy-b"},
        {"command": "python other.py"},
        {"env": {"MODEL": "n", "KEY": {"secret": "KEY"}}},
        {"env": {"MODEL": "m", "KEY": {"secret": "OTHER"}}},
        {"group": "state-1"},
        {"chip": "h100"},
    ],
    ids=str,
)
def test_each_part_of_it_tells_two_rollouts_apart(change: Any) -> None:
    assert identity({**ENVELOPE, **change}) != identity(ENVELOPE)


def test_what_is_left_out_and_what_is_null_are_the_same() -> None:
    assert identity({**ENVELOPE, "seed": None}) == identity(
        {key: value for key, value in ENVELOPE.items() if key != "seed"}  # type: ignore[typeddict-item]
    )
