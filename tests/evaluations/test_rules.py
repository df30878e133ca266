"""Every parameter of a batch: its default, its range, what refuses it, and what it means for the others."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.exceptions import ErrorDetail

from evaluations.documents import Batch
from evaluations.rules import Rules, refusals, settle

DIGEST = f"sha256:{'ab' * 32}"
SANDBOX: dict[str, Any] = {
    "environment": {"kind": "sandbox", "template": "basic@1"},
    "judge": "osworld@v1",
    "spec": {"task_set": "deskyard-basics", "task": "rename-folder", "recipe": True},
    "policy": "recipes",
}
TASK: dict[str, Any] = {
    "environment": {"kind": "task", "image": f"sim@{DIGEST}"},
    "judge": f"swe-tests@{DIGEST}",
}
OPENENV: dict[str, Any] = {
    "environment": {"kind": "openenv", "image": f"echo@{DIGEST}"},
    "judge": f"upstream:echo@{DIGEST}",
}
KINDS = {"sandbox": SANDBOX, "task": TASK, "openenv": OPENENV}


def read(document: dict[str, Any]) -> dict[str, Any]:
    batch = Batch(data=document)
    batch.is_valid(raise_exception=True)
    return dict(batch.validated_data)


def wrong(document: Any) -> dict[str, set[str]]:
    """Codes by field, of the shape."""
    batch = Batch(data=document)
    batch.is_valid()
    return {name: {*_codes(found)} for name, found in batch.errors.items()}


def _codes(found: Any) -> Any:
    if isinstance(found, ErrorDetail):
        yield found.code
    else:
        for one in found.values() if isinstance(found, dict) else found:
            yield from _codes(one)


def refused(document: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one.field, one.code) for one in refusals(read(document))}


def settled(document: dict[str, Any]) -> Rules:
    batch = read(document)
    assert list(refusals(batch)) == []
    return settle(batch)


def test_what_is_left_out_has_its_default() -> None:
    found = settled(SANDBOX)
    assert (found.profile, found.memo, found.repro_class) == ("eval", True, "seeded-stochastic")
    assert (found.seeds, len(found.specs)) == ([None], 1)
    found = settled(TASK)
    assert (found.lease_batch, found.runners, found.max_duration_minutes) == (32, 4, 240)
    found = settled(OPENENV)
    assert (found.lease_batch, found.egress) == (16, "none")
    found = settled(TASK | {"profile": "train"})
    assert (found.memo, found.repro_class) == (False, "unrepeatable")


@pytest.mark.parametrize("kind", KINDS)
def test_null_is_as_if_left_out(kind: str) -> None:
    optional = {name for name, field in Batch().fields.items() if field.allow_null}
    assert settled(KINDS[kind] | {name: None for name in optional if name not in KINDS[kind]}) == settled(
        KINDS[kind]
    )


@pytest.mark.parametrize(
    ("change", "field", "code"),
    [
        ({"judge": "osworld"}, "judge", "bad_judge"),
        ({"judge": None}, "judge", "null"),
        ({"environment": {"kind": "cloud"}}, "environment", "invalid"),
        ({"environment": "basic@1"}, "environment", "invalid"),
        ({"environment": {"kind": "sandbox"}}, "environment", "one_of"),
        (
            {
                "environment": {
                    "kind": "sandbox",
                    "template": "basic@1",
                    "state": "0" * 8 + "-0000" * 3 + "-" + "0" * 12,
                }
            },
            "environment",
            "one_of",
        ),
        ({"environment": {"kind": "sandbox", "state": "s"}}, "environment", "invalid"),
        ({"environment": {"kind": "sandbox", "image": "i"}}, "environment", "unknown_field"),
        ({"profile": "test"}, "profile", "invalid_choice"),
        ({"repro_class": "exact"}, "repro_class", "invalid_choice"),
        ({"memo": "yes"}, "memo", "invalid"),
        ({"memo": 1}, "memo", "invalid"),
        ({"open": "true"}, "open", "invalid"),
        ({"group": 1}, "group", "min_value"),
        ({"group": 65}, "group", "max_value"),
        ({"lease_batch": 0}, "lease_batch", "min_value"),
        ({"lease_batch": 8193}, "lease_batch", "max_value"),
        ({"runners": 0}, "runners", "min_value"),
        ({"runners": 33}, "runners", "max_value"),
        ({"runners": 4.0}, "runners", "invalid"),
        ({"max_duration_minutes": 0}, "max_duration_minutes", "min_value"),
        ({"seeds": 0}, "seeds", "count"),
        ({"seeds": []}, "seeds", "count"),
        ({"seeds": 100_001}, "seeds", "count"),
        ({"seeds": [1, "2"]}, "seeds", "invalid"),
        ({"seeds": True}, "seeds", "invalid"),
        ({"seeds": [2**63]}, "seeds", "range"),
        ({"spec": "rename-folder"}, "spec", "invalid"),
        ({"spec": []}, "spec", "empty"),
        ({"spec": [{}, 1]}, "spec", "invalid"),
        ({"env": {"1A": "x"}}, "env", "name"),
        ({"env": {"A": 1}}, "env", "value"),
        ({"env": {"A": {"secret": "K", "more": 1}}}, "env", "value"),
        ({"env": []}, "env", "invalid"),
        ({"egress": "half"}, "egress", "invalid_choice"),
        ({"labels": {"a": 1}}, "labels", "invalid"),
        ({"state_expires_after": "30"}, "state_expires_after", "invalid"),
        ({"state_expires_after": "0d"}, "state_expires_after", "invalid"),
        ({"seed": 1}, "seed", "unknown_field"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_field(
    change: dict[str, Any], field: str, code: str
) -> None:
    found = wrong(SANDBOX | change)
    assert set(found) == {field}
    assert code in found[field]


def test_a_number_of_seeds_means_the_first_so_many() -> None:
    assert settled(TASK | {"seeds": 3}).seeds == [0, 1, 2]
    assert settled(TASK | {"seeds": [7, -7]}).seeds == [7, -7]


@pytest.mark.parametrize(
    ("kind", "change", "refusal"),
    [
        ("sandbox", {"command": "run"}, ("command", "other_kind")),
        ("sandbox", {"env": {"A": "b"}}, ("env", "other_kind")),
        ("sandbox", {"runners": 2}, ("runners", "other_kind")),
        ("sandbox", {"egress": "none"}, ("egress", "other_kind")),
        ("task", {"group": 2, "seeds": 2}, ("group", "other_kind")),
        ("task", {"egress": "open"}, ("egress", "other_kind")),
        ("task", {"state_expires_after": "30d"}, ("state_expires_after", "other_kind")),
        ("openenv", {"chip": "h100"}, ("chip", "other_kind")),
        ("openenv", {"command": "run"}, ("command", "other_kind")),
        ("openenv", {"lease_batch": 65}, ("lease_batch", "max_value")),
        ("task", {"chip": "h100", "gpu": "cpu-2"}, ("gpu", "not_the_chip")),
        ("task", {"profile": "train", "memo": True}, ("memo", "not_for_training")),
        ("task", {"repro_class": "unrepeatable", "memo": True}, ("memo", "unrepeatable")),
        ("sandbox", {"policy": None}, ("policy", "required")),
        ("sandbox", {"policy": ""}, ("policy", "blank")),
        ("sandbox", {"group": 2, "seeds": 2}, ("group", "needs_no_memo")),
        ("sandbox", {"group": 2, "seeds": 3, "memo": False}, ("seeds", "one_each")),
        ("sandbox", {"group": 2, "memo": False}, ("seeds", "one_each")),
        ("task", {"seeds": 100_000, "spec": [{}, {"a": 1}]}, ("seeds", "too_many")),
    ],
)
def test_a_rule_between_fields_is_refused_by_the_field_to_change(
    kind: str, change: dict[str, Any], refusal: tuple[str, str]
) -> None:
    document = KINDS[kind] | change
    found = {(field, code) for field, codes in wrong(document).items() for code in codes} or refused(document)
    assert found == {refusal}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("sandbox", {"policy": None, "memo": False}),
        ("sandbox", {"policy": None, "profile": "train"}),
        ("sandbox", {"policy": None, "repro_class": "unrepeatable"}),
        ("sandbox", {"group": 3, "seeds": [5, 6, 7], "memo": False}),
        ("sandbox", {"group": 2, "seeds": 2, "profile": "train"}),
        ("task", {"chip": "cpu-2", "gpu": "cpu-2"}),
        ("task", {"lease_batch": 8192}),
        ("openenv", {"lease_batch": 64, "egress": "open"}),
    ],
)
def test_what_the_rules_allow_is_taken(kind: str, change: dict[str, Any]) -> None:
    settled(KINDS[kind] | change)


def test_a_chip_on_a_sandbox_is_passed_over_and_gpu_is_another_name_of_it() -> None:
    assert settled(SANDBOX | {"chip": "h100"}).chip == ""
    assert settled(TASK | {"gpu": "cpu-2"}).chip == "cpu-2"
