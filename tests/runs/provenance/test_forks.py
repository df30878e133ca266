"""What a manifest says of prefixes and forks is computed again from its rows, like all else."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from console.actor import Actor
from console.api.signing import canonical, sign
from console.models import User, Workspace
from runs import provenance
from runs.actions.create import create_run
from runs.models import Run, Task
from runs.supervisor import one_pass
from tests.factories import document, sha256
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db
Verdict = Callable[..., tuple[bool, list[str]]]


@pytest.fixture
def forked(workspace: Workspace, owner: User, material: dict[str, Any]) -> Run:
    """Two groups of two live forks each, of prefixes of two steps; it has ended."""
    Task.objects.update(recipe=[{"action": "click", "x": 1, "y": 2}] * 3)
    worker = PaperWorker(workspace, owner, slots=4, can_fork=True)
    asked = document("basics", ["task-1", "task-2"], fork_copies=2, prefix_steps=2)
    run = create_run(workspace=workspace, document=asked, actor=Actor.person(owner))
    for _ in range(3):
        one_pass()
        for one in worker.offered():
            worker.play_prefix(one) if one.kind == "prefix" else worker.play_fork(one)
    one_pass()
    return Run.objects.select_related("workspace", "budget", "task_set", "template_version__template").get(
        pk=run.pk
    )


def test_a_forking_run_verifies_small_and_large(
    forked: Run, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert forked.status == "completed"
    assert verdict(b"".join(provenance.manifest(forked))) == (True, [])
    monkeypatch.setattr(provenance, "INLINE", 1)
    lines = b"".join(provenance.manifest(forked))
    assert lines.count(b'"kind":"prefix"') == 2
    assert verdict(lines) == (True, [])


def test_it_says_what_each_attempt_was_forked_from_and_what_the_prefixes_cost(forked: Run) -> None:
    said = provenance.statement(forked)["predicate"]
    digests = {row["number"]: row["state_digest"] for row in said["prefixes"]}
    for row in said["attempts"]:
        assert (row["fork_method"], row["steps"]) == ("live", 3)
        assert row["prefix"]["state_digest"] == digests[row["prefix"]["number"]]
        assert row["tries"][0]["from_digest"] == row["prefix"]["state_digest"]
    bought = [row for row in said["desktops"] if row["purpose"] == "prefix"]
    assert len(bought) == 2
    cost = sum(Decimal(row["ledger"]["cost_usd"]) for row in bought)
    assert Decimal(said["figures"]["prefix_cost_usd"]) == cost > 0


def cheaper(said: dict[str, Any]) -> None:
    said["figures"]["prefix_cost_usd"] = "0.00"


def of_another_parent(said: dict[str, Any]) -> None:
    said["attempts"][0]["tries"][0]["from_digest"] = f"sha256:{sha256('another')}"


def of_no_prefix(said: dict[str, Any]) -> None:
    said["attempts"][0]["prefix"] = None


def another_prefix(said: dict[str, Any]) -> None:
    said["prefixes"][1]["state_digest"] = f"sha256:{sha256('another')}"


def one_prefix_less(said: dict[str, Any]) -> None:
    del said["prefixes"][1]


@pytest.mark.parametrize(
    "change", [cheaper, of_another_parent, of_no_prefix, another_prefix, one_prefix_less]
)
def test_whoever_signs_something_else_is_caught(
    forked: Run, verdict: Verdict, change: Callable[[dict[str, Any]], None]
) -> None:
    """Also with a signature and digests that fit what was changed."""
    statement = provenance.statement(forked)
    change(statement["predicate"])
    for subject in statement["subject"]:
        name = subject["name"].rsplit("/", 1)[1]
        if rows := statement["predicate"].get(name if name != "events" else ""):
            text = b"".join(canonical(row) + b"\n" for row in rows)
            subject["digest"]["sha256"] = sha256(text.decode())
    holds, wrong = verdict(sign(statement))
    assert not holds
    assert wrong
