"""One verdict: run the task's checks on a desktop, in OSWorld's way of joining them.

1. `infeasible` tasks: 1 when the policy said `fail`, else 0. On any other task `fail` is 0.
2. Each check: getter for the found value, getter for the expected one, metric over both.
3. `and`: the first 0 ends it with 0, else the mean. `or`: the first 1 ends it with 1, else the largest.

A desktop that cannot be reached raises GuestUnreachable, a checker that cannot work CheckerBroken; neither is
ever a 0. What the desktop lacks or has spoilt is a 0 with a note that says so.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from desktops.protocol.actions import Action
from desktops.protocol.attempt import Evidence
from desktops.worker.guest_client import Guest, GuestError
from desktops.worker.task import INFEASIBLE, Check, Source, Task

from .bench import Bench
from .errors import ArtefactMissing, CheckerBroken, Unreadable
from .getters import GETTERS
from .metrics import METRICS

SHOWN_CHARACTERS = 4000  # of a value in the evidence; the artefact holds all of it


@dataclass(frozen=True)
class Judgement:
    """`files` maps the SHA-256 of each artefact named in the evidence to its place on the worker's disk."""

    reward: float
    evidence: list[Evidence]
    checker: str
    checker_digest: str
    files: dict[str, Path] = field(default_factory=dict)


def evaluate(task: Task, guest: Guest, last_action: Action | None, folder: Path) -> Judgement:
    """Judge what the desktop shows now. `folder` is the one the setup steps used; artefacts stay in it.

    Raises GuestUnreachable and CheckerBroken: neither is a verdict.
    """
    evaluator = task.evaluator
    said_fail = last_action is not None and last_action.action == "fail"
    if evaluator.infeasible or said_fail:
        return _judge_fail(evaluator.infeasible, said_fail)
    folder.mkdir(parents=True, exist_ok=True)
    evidence: list[Evidence] = []
    files: dict[str, Path] = {}
    for number, check in enumerate(evaluator.checks, 1):
        part = _run_check(check, guest, folder, f"check {number}", files)
        evidence.append(part)
        if evaluator.conj == "and" and part.reward == 0:
            break
        if evaluator.conj == "or" and part.reward >= 1:
            break
    rewards = [part.reward for part in evidence]
    mean = 0.0 if min(rewards) == 0 else sum(rewards) / len(rewards)
    reward = max(rewards) if evaluator.conj == "or" else mean
    names = f" {evaluator.conj} ".join(check.metric for check in evaluator.checks)
    return Judgement(reward, evidence, names, checker_digest(), files)


def unsupported(task: Task) -> list[tuple[str, str]]:
    """What the task needs and the registries lack: ("metric" or "getter", name) pairs."""
    missing: dict[tuple[str, str], None] = {}
    for check in task.evaluator.checks:
        if check.metric != INFEASIBLE and check.metric not in METRICS:
            missing["metric", check.metric] = None
        for source in (check.result, check.expected):
            if source is not None and source.type not in GETTERS:
                missing["getter", source.type] = None
    return list(missing)


@functools.cache
def checker_digest() -> str:
    """SHA-256 over the checkers' source files, names included: the same digest is the same code."""
    here = Path(__file__).parent
    total = hashlib.sha256()
    for path in sorted(here.rglob("*.py")):
        content = path.read_bytes()
        total.update(f"{path.relative_to(here).as_posix()}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


def _judge_fail(infeasible: bool, said_fail: bool) -> Judgement:
    reward = 1.0 if infeasible and said_fail else 0.0
    note = {
        (True, True): "The task cannot be done, and the policy said so.",
        (True, False): "The task cannot be done, and the policy did not say so.",
        (False, True): "The policy said that the task cannot be done; it can.",
    }[infeasible, said_fail]
    part = Evidence(
        label="answer",
        metric=INFEASIBLE,
        found="fail" if said_fail else "other",
        expected="fail" if infeasible else "other",
        reward=reward,
        note=note,
    )
    return Judgement(reward, [part], INFEASIBLE, checker_digest())


def _run_check(check: Check, guest: Guest, folder: Path, label: str, files: dict[str, Path]) -> Evidence:
    metric = METRICS.get(check.metric)
    if metric is None:
        raise CheckerBroken(f"there is no metric {check.metric!r}")
    bench = Bench(guest, folder)
    found: Any = None
    expected: Any = None
    note = ""
    reward = 0.0
    try:
        found = _get(check.result, bench)
        expected = _get(check.expected, bench)
        reward = float(_measure(metric, check, found, expected))
    except (ArtefactMissing, Unreadable) as error:
        note = str(error)
    except (GuestError, CheckerBroken):
        raise
    except Exception as error:  # any other fault is the checker's own, and must not become a 0
        where = f"{label}, {check.metric}"
        raise CheckerBroken(f"{where}: {type(error).__name__}: {error}") from error
    artefacts = {}
    for name, path in bench.fetched.items():
        sha = hashlib.sha256(path.read_bytes()).hexdigest()
        kept = path.with_name(f".{sha}")
        path.replace(kept)  # a later check may fetch the same name again
        artefacts[name] = sha
        files[sha] = kept
    return Evidence(
        label=label,
        metric=check.metric,
        getter=check.result.type if check.result else "",
        found=_shown(found),
        expected=_shown(expected),
        reward=reward,
        artefacts=artefacts,
        note=note,
    )


def _get(source: Source | None, bench: Bench) -> Any:
    if source is None:
        return None
    getter = GETTERS.get(source.type)
    if getter is None:
        raise CheckerBroken(f"there is no getter {source.type!r}")
    return getter(bench, source.parameters)


def _measure(metric: Any, check: Check, found: Any, expected: Any) -> float:
    """Call a metric with one or two values, as its signature and the task ask."""
    if check.expected is None and "expected" not in inspect.signature(metric).parameters:
        return float(metric(found, **check.options))
    return float(metric(found, expected, **check.options))


def _shown(value: Any) -> Any:
    """A value fit for JSON and of bounded size; a file by name and size."""
    if isinstance(value, Path):
        # The file may have been moved to its kept name by now: its size is in the artefact.
        return {"file": value.name}
    if isinstance(value, list | tuple) and any(isinstance(item, Path) for item in value):
        return [_shown(item) for item in value]
    if isinstance(value, Mapping) and len(value) == 1 and "expected" in value:
        value = value["expected"]
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False)
    if len(text) <= SHOWN_CHARACTERS:
        return value if isinstance(value, str) else json.loads(text)
    return text[:SHOWN_CHARACTERS] + "…"
