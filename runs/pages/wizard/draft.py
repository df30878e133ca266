"""A person's draft: the run document as far as it is filled in, what was typed wrongly included.

The draft holds the document's own keys and JSON types. What cannot be read as a number stays the text that
was typed, so that `runs.spec` says what is wrong with it and the field still shows it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.http import QueryDict

from console.models import User, Workspace
from runs import limits, spec
from runs.models import Run, RunDraft, TaskSet

from .steps import BUDGET, EXECUTION, REVIEW, STEPS, WORKLOAD, Step, step_of

NUMBERS = (*EXECUTION.fields, "time_cap_minutes", "stop_after_valid")
DEFAULTS = {
    "parallel_copies": limits.PARALLEL_COPIES.default,
    "fork_copies": limits.FORK_COPIES.default,
    "prefix_steps": limits.PREFIX_STEPS.default,
    "max_steps": limits.MAX_STEPS.default,
    "rounds": limits.ROUNDS.default,
    "time_cap_minutes": limits.TIME_CAP_MINUTES.default,
}


class Draft:
    """A draft with what `runs.spec` says about it. `row` is None until the first save."""

    def __init__(self, workspace: Workspace, user: User) -> None:
        self.workspace, self.user = workspace, user
        self.row = RunDraft.objects.for_workspace(workspace).filter(user=user).first()
        self.document: dict[str, Any] = dict(self.row.document) if self.row else {}
        self._errors: list[spec.FieldError] | None = None

    def save(self) -> None:
        self.row, _ = RunDraft.objects.update_or_create(
            workspace=self.workspace, user=self.user, defaults={"document": self.document}
        )
        self._errors = None

    def replace(self, document: Mapping[str, Any]) -> None:
        """Begin from another document: a rerun, or tasks chosen on a task set's page."""
        self.document = self.of(document)
        self.save()

    @staticmethod
    def of(document: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in document.items() if name in spec.FIELDS}

    def discard(self) -> None:
        RunDraft.objects.for_workspace(self.workspace).filter(user=self.user).delete()

    @property
    def errors(self) -> list[spec.FieldError]:
        """Everything wrong with the document as it is, the steps that were not filled in yet included."""
        if self._errors is None:
            self._errors = spec.check_fields(self.document, spec.FIELDS, workspace=self.workspace)
        return self._errors

    def errors_of(self, step: Step) -> list[spec.FieldError]:
        """What keeps this step from being passed. Nothing is wrong with a review that can be reached."""
        return [error for error in self.errors if step is not REVIEW and step_of(error.field) is step]

    def is_saved(self, step: Step) -> bool:
        return any(name in self.document for name in step.fields)

    def is_passed(self, step: Step) -> bool:
        return self.is_saved(step) and not self.errors_of(step)

    def first_open(self) -> Step:
        """Where to go on: the first step that is not passed, else the review."""
        return next((step for step in STEPS if step is not REVIEW and not self.is_passed(step)), REVIEW)

    def request(self) -> dict[str, Any]:
        """The document that launch hands to `create_run`: its keys in their order, defaults filled in."""
        empty = {"stop_after_valid": None, "model": None, "name": ""}
        known = {**DEFAULTS, **empty, **self.document}
        if not known["name"]:
            del known["name"]  # left out, it is made from the tasks
        return {name: known[name] for name in spec.FIELDS if name in known}

    def number(self, name: str) -> int:
        """A number for sums and pictures: the default while what was typed is none, within its range."""
        allowed: limits.Range = getattr(limits, name.upper())
        value = self.document.get(name, allowed.default)
        if not isinstance(value, int):
            value = allowed.default or allowed.low
        return min(allowed.high, max(allowed.low, value))

    @property
    def tasks(self) -> list[str]:
        tasks = self.document.get("tasks")
        return tasks if isinstance(tasks, list) else []

    @property
    def planned(self) -> int:
        return (
            len(self.tasks)
            * self.number("parallel_copies")
            * self.number("fork_copies")
            * self.number("rounds")
        )

    @property
    def per_task(self) -> int:
        return self.number("parallel_copies") * self.number("fork_copies") * self.number("rounds")

    def task_set(self) -> TaskSet | None:
        name = self.document.get("task_set")
        sets = TaskSet.objects.for_workspace(self.workspace).current()
        return sets.filter(name=name).first() if isinstance(name, str) else None


def start(draft: Draft) -> None:
    """What a new draft proposes, not yet saved: a scripted test of the first task set."""
    sets = TaskSet.objects.for_workspace(draft.workspace).current()
    first = sets.filter(tasks__recipe__isnull=False).first() or sets.first()
    draft.document.setdefault("kind", Run.Kind.SCRIPTED_TEST.value)
    if first is not None:
        draft.document.setdefault("task_set", first.name)
    draft.document.setdefault("tasks", [])


def read_step(step: Step, form: QueryDict) -> dict[str, Any]:
    """The document's values out of a posted step (the workload has its own reader, `picker.read`)."""
    if step is WORKLOAD or step is REVIEW:
        raise ValueError(f"{step.slug} is not read field by field")
    values: dict[str, Any] = {}
    for name in step.fields:
        typed = form.get(name, "").strip()
        if name in NUMBERS:
            values[name] = _number(typed, optional=name == "stop_after_valid")
        elif name == "spend_cap_usd":
            values[name] = typed.removeprefix("$").strip()
        elif typed:
            values[name] = typed
    if step is BUDGET and not values["spend_cap_usd"]:
        # Missing, not malformed: "This field is required." is what the person should read.
        del values["spend_cap_usd"]
    return values


def _number(typed: str, *, optional: bool) -> int | str | None:
    if not typed:
        return None if optional else ""
    plain = re.sub(r"[,\s_]", "", typed)
    return int(plain) if re.fullmatch(r"-?[0-9]{1,15}", plain, re.ASCII) else typed
