"""Rollouts on a desktop: what they start from, and which task each plays."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from console.models import Workspace
from desktops.models import State, TemplateVersion
from evaluations.identity import Envelope, identity
from evaluations.rules import Refusal, Rules
from runs.models import Task

JUDGES: Final = ("osworld@v1",)


class Unusable(Exception):
    """Why nothing can be played; `refusals` as documents' are."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        super().__init__("; ".join(one.message for one in refusals))
        self.refusals = list(refusals)


@dataclass(frozen=True)
class Environment:
    """`digest` is the image's, or that of what was saved."""

    digest: str
    template_version: TemplateVersion
    state: State | None = None


@dataclass(frozen=True)
class Row:
    task: Task
    spec: dict[str, Any]
    seed: int | None
    identity: str


def environment(asked: Mapping[str, Any], workspace: Workspace) -> Environment:
    """Raises Unusable."""
    if "state" in asked:
        return _of_state(asked["state"], workspace)
    name, _, version = asked["template"].partition("@")
    rows = TemplateVersion.objects.filter(template__workspace=workspace, template__name=name)
    found = None
    if version.isascii() and version.isdigit() and len(version) < 9:
        found = rows.filter(version=int(version)).select_related("template").first()
    if found is None:
        raise _unusable("environment.template", "unknown_template", "No such template: write NAME@VERSION.")
    if found.status != TemplateVersion.Status.PUBLISHED:
        raise _unusable("environment.template", "not_published", f"{found} is not published.")
    return Environment(found.digest, found)


def _of_state(pk: uuid.UUID, workspace: Workspace) -> Environment:
    held = State.objects.for_workspace(workspace).held().select_related("template_version__template")
    state = held.filter(pk=pk).first()
    if state is None:
        raise _unusable("environment.state", "unknown_state", "There is no such saved desktop.")
    if state.template_version is None or state.attestation is None:
        raise _unusable("environment.state", "not_attested", "Nothing says what its forks are to look like.")
    return Environment(state.digest, state.template_version, state)


def rows(rules: Rules, place: Environment, workspace: Workspace, policy: str) -> list[Row]:
    """Each spec with each seed, in that order. Raises Unusable."""
    if rules.judge.text not in JUDGES:
        raise _unusable("judge", "cannot_judge", f"On a desktop judges, until now, {' and '.join(JUDGES)}.")
    problems: list[Refusal] = []
    tasks = []
    known = _Tasks(workspace, place.template_version.template.name)
    for number, spec in enumerate(rules.specs):
        field = "spec" if len(rules.specs) == 1 else f"spec.{number}"
        refusal, task = known.of(spec, field)
        if refusal is not None:
            problems.append(refusal)
        elif task is not None:
            tasks.append((spec, task))
    if problems:
        raise Unusable(problems[:20])
    return [
        Row(task, spec, seed, _identity(rules, place, task, seed, policy))
        for spec, task in tasks
        for seed in rules.seeds
    ]


def _identity(rules: Rules, place: Environment, task: Task, seed: int | None, policy: str) -> str:
    said: Envelope = {
        "kind": rules.kind,
        "environment": place.digest,
        "spec": {"task": task.digest, "recipe": task.recipe_digest},
        "seed": seed,
        "judge": rules.judge.text,
        "policy": policy,
    }
    return identity(said)


class _Tasks:
    """Those of the newest versions of task sets, each set read once."""

    def __init__(self, workspace: Workspace, template: str) -> None:
        self._workspace, self._template = workspace, template
        self._sets: dict[str, dict[str, Task]] = {}

    def of(self, spec: Mapping[str, Any], field: str) -> tuple[Refusal | None, Task | None]:
        if wrong := next(_shape(spec, field), None):
            return wrong, None
        name, asked = spec["task_set"], spec["task"]
        if name not in self._sets:
            found = Task.objects.filter(
                task_set__in=self._workspace.task_sets.filter(name=name, is_current=True)
            )
            self._sets[name] = {task.task_id: task for task in found}
        task = self._sets[name].get(asked)
        if not self._sets[name]:
            return Refusal(f"{field}.task_set", "unknown_task_set", "There is no such task set."), None
        if task is None:
            return Refusal(f"{field}.task", "unknown_task", f"Not in {name}."), None
        if task.recipe is None:
            return Refusal(f"{field}.task", "no_recipe", "No actions that solve it are known."), None
        if self._template not in task.templates:
            wanted = ", ".join(task.templates) or "an app that no template has"
            return Refusal(f"{field}.task", "needs_another_template", f"It needs {wanted}."), None
        return None, task


def _shape(spec: Mapping[str, Any], field: str) -> Iterator[Refusal]:
    if "external" in spec:
        yield Refusal(f"{field}.external", "not_yet", "Nothing here can be driven from outside yet.")
    if "actions" in spec:
        yield Refusal(f"{field}.actions", "not_yet", "Only a task's own recipe can be played yet.")
    for name in ("task_set", "task"):
        if not isinstance(spec.get(name), str) or "\x00" in spec[name]:
            yield Refusal(f"{field}.{name}", "required", f"Name the {name.replace('_', ' ')}.")
    if spec.get("recipe") is not True:
        yield Refusal(f"{field}.recipe", "required", "Say who acts: recipe true plays the task's own.")
    if unknown := sorted(spec.keys() - {"task_set", "task", "recipe"}):
        yield Refusal(f"{field}.{unknown[0]}"[:200], "unknown_field", "A spec has no such field.")


def _unusable(field: str, code: str, message: str) -> Unusable:
    return Unusable([Refusal(field, code, message)])
