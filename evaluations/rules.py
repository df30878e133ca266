"""What one field of a batch means for another, and what is left out. Needs no database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from evaluations import limits
from evaluations.judges import Judge

# Which fields belong to which kinds of environment. `chip` on a sandbox is passed over.
OF_KIND: Final[Mapping[str, frozenset[str]]] = {
    "command": frozenset({"task"}),
    "env": frozenset({"task"}),
    "max_duration_minutes": frozenset({"task"}),
    "chip": frozenset({"task", "sandbox"}),
    "gpu": frozenset({"task", "sandbox"}),
    "egress": frozenset({"openenv"}),
    "lease_batch": frozenset({"task", "openenv"}),
    "runners": frozenset({"task", "openenv"}),
    "group": frozenset({"sandbox"}),
    "state_expires_after": frozenset({"sandbox"}),
}


@dataclass(frozen=True)
class Refusal:
    field: str
    code: str
    message: str


@dataclass(frozen=True)
class Rules:
    """A batch with its defaults: what the fields that were sent come to together."""

    kind: str
    judge: Judge
    profile: str
    memo: bool
    repro_class: str
    lease_batch: int
    runners: int
    max_duration_minutes: int
    egress: str
    chip: str
    seeds: list[int | None]
    specs: list[dict[str, Any]]


def refusals(batch: Mapping[str, Any]) -> Iterator[Refusal]:
    """Every rule that a batch of right shape breaks; `batch` has what was sent, as `documents.Batch` reads it."""
    kind = batch["environment"]["kind"]
    sent = {name for name, value in batch.items() if value is not None and value != {}}
    for name in sorted(sent & OF_KIND.keys()):
        if kind not in OF_KIND[name]:
            kinds = " and ".join(
                sorted(OF_KIND[name] - {"sandbox"} if name in ("chip", "gpu") else OF_KIND[name])
            )
            yield Refusal(name, "other_kind", f"This field is for environments of the kind {kinds}.")
    if {"chip", "gpu"} <= sent and batch["chip"] != batch["gpu"]:
        yield Refusal(
            "gpu", "not_the_chip", "gpu is another name of chip: send one of them, or the same twice."
        )
    if kind == "openenv" and (batch.get("lease_batch") or 0) > limits.LEASE_BATCH_OPENENV.high:
        most = limits.LEASE_BATCH_OPENENV.high
        yield Refusal(
            "lease_batch", "max_value", f"At most {most} for openenv: each rollout is a session of its own."
        )
    profile, memo = batch.get("profile") or "eval", batch.get("memo")
    if memo and profile == "train":
        yield Refusal(
            "memo", "not_for_training", "A remembered sample is no new sample: train needs memo off."
        )
    if memo and batch.get("repro_class") == "unrepeatable":
        yield Refusal("memo", "unrepeatable", "What cannot be repeated is not remembered: leave memo off.")
    if kind == "sandbox" and profile == "eval" and _memo(batch) and not batch.get("policy"):
        yield Refusal(
            "policy",
            "required",
            "Name the policy, or turn memo off: the model that drives a sandbox is not seen from here, so the next "
            "one would be served this one's verdicts.",
        )
    if (group := batch.get("group")) is not None and kind == "sandbox":
        if _memo(batch):
            yield Refusal(
                "group", "needs_no_memo", "A group under eval is of children that all run: send memo false."
            )
        if len(batch.get("seeds") or []) != group:
            yield Refusal("seeds", "one_each", f"A group of {group} needs {group} seeds, one for each child.")
    rows = len(batch.get("spec") or [None]) * len(batch.get("seeds") or [None])
    if rows > limits.ROWS.high:
        yield Refusal(
            "seeds", "too_many", f"{rows:,} rollouts: at most {limits.ROWS.high:,} fit into one batch."
        )
    if batch["judge"].pin == "image" and kind == "task":
        yield Refusal("judge", "other_kind", "An environment's own reward is for sandbox and openenv.")


def settle(batch: Mapping[str, Any]) -> Rules:
    """With defaults; of a batch without refusals."""
    kind, profile = batch["environment"]["kind"], batch.get("profile") or "eval"
    default_lease = limits.LEASE_BATCH_OPENENV if kind == "openenv" else limits.LEASE_BATCH
    return Rules(
        kind=kind,
        judge=batch["judge"],
        profile=profile,
        memo=_memo(batch),
        repro_class=batch.get("repro_class") or _repro_class(profile),
        lease_batch=batch.get("lease_batch") or default_lease.default or 1,
        runners=batch.get("runners") or limits.RUNNERS.default or 1,
        max_duration_minutes=batch.get("max_duration_minutes") or limits.MAX_DURATION_MINUTES.default or 1,
        egress=batch.get("egress") or "none",
        chip="" if kind == "sandbox" else batch.get("chip") or batch.get("gpu") or "",
        seeds=batch.get("seeds") or [None],
        specs=batch.get("spec") or [{}],
    )


def _memo(batch: Mapping[str, Any]) -> bool:
    """As asked for, else by the profile; what is declared unrepeatable is never remembered."""
    memo, profile = batch.get("memo"), batch.get("profile") or "eval"
    if memo is not None:
        return bool(memo)
    return profile == "eval" and batch.get("repro_class") != "unrepeatable"


def _repro_class(profile: str) -> str:
    return "unrepeatable" if profile == "train" else "seeded-stochastic"
