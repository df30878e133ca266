"""The one check of a run document. API, wizard, MCP and commands ask here, and nobody decides elsewhere.

The document (every other key is refused):

    {"kind": "scripted_test", "name": "nightly smoke", "task_set": "deskyard-basics",
     "tasks": ["rename-folder"], "template": "basic@1", "parallel_copies": 1, "fork_copies": 1,
     "prefix_steps": 0, "max_steps": 15, "rounds": 1, "spend_cap_usd": "0.50", "time_cap_minutes": 30,
     "stop_after_valid": null, "model": null}
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from rest_framework import serializers

from console.models import Workspace
from console.names import said_back
from desktops.models import TemplateVersion
from runs import limits
from runs.models import Run, Task, TaskSet

from .fields import FIELDS, CapsSerializer, RunSpecSerializer

__all__ = [
    "FIELDS",
    "CapsSerializer",
    "CheckedSpec",
    "FieldError",
    "RunSpecSerializer",
    "SpecRejected",
    "check",
    "check_fields",
]

MOST_ERRORS: Final = 50  # a hostile document gets a bounded reply
MOST_NAMES: Final = 20  # task ids named in one message

NOT_OFFERED: Final = {
    "evaluation": (
        "Only scripted tests run in this version, which replay recipes. It has nothing that asks a model for the "
        "next action, and no setting turns that on. Use scripted_test."
    ),
    "training": "Training is not offered in this version: runs change no weights. Use scripted_test.",
}


@dataclass(frozen=True)
class FieldError:
    """`field` is the document's key ("" for the whole), `code` is stable, `message` is for people."""

    field: str
    code: str
    message: str


class SpecRejected(Exception):
    """The run document has errors; nothing was stored."""

    def __init__(self, errors: list[FieldError]) -> None:
        super().__init__("; ".join(f"{error.field}: {error.message}" for error in errors))
        self.errors = errors


@dataclass(frozen=True)
class CheckedSpec:
    """`spec` is the document with its defaults, JSON values only (money as a string with two places);
    `tasks` are in the document's order; `planned` attempts; `spend_cap` in dollars."""

    spec: dict[str, Any]
    task_set: TaskSet
    tasks: list[Task]
    template_version: TemplateVersion
    planned: int
    spend_cap: Decimal


def check(document: object, *, workspace: Workspace) -> CheckedSpec:
    """The document, checked against the ranges and against what the workspace has. Writes nothing.

    Raises SpecRejected with every error found, at most MOST_ERRORS.
    """
    examination = _Examination(workspace)
    examination.examine(document)
    if examination.errors or examination.checked is None:
        raise SpecRejected(examination.errors[:MOST_ERRORS])
    return examination.checked


def check_fields(document: object, fields: Collection[str], *, workspace: Workspace) -> list[FieldError]:
    """What `check` would say about these fields: one step of the wizard, the rest not filled in yet."""
    examination = _Examination(workspace)
    examination.examine(document)
    return [error for error in examination.errors if error.field in fields]


@dataclass
class _Examination:
    """Goes through a document once and notes every error; rules on fields already wrong are left out."""

    workspace: Workspace
    errors: list[FieldError] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    checked: CheckedSpec | None = None

    def refuse(self, name: str, code: str, message: str) -> None:
        self.errors.append(FieldError(name, code, message))

    def has(self, *names: str) -> bool:
        return all(name in self.values for name in names)

    def examine(self, document: object) -> None:
        if not isinstance(document, Mapping):
            self.refuse("", "not_an_object", "The run document must be a JSON object.")
            return
        self._shape(document)
        task_set = self._task_set()
        template_version = self._template()
        tasks = self._tasks(task_set, template_version)
        self._rules()
        if self.errors or task_set is None or template_version is None:
            return
        spec = {name: self.values[name] for name in FIELDS}
        spec["spend_cap_usd"] = str(self.values["spend_cap_usd"])
        spec["name"] = self.values["name"] or _name_for(task_set, tasks)
        self.checked = CheckedSpec(
            spec, task_set, tasks, template_version, self._planned(), self.values["spend_cap_usd"]
        )

    def _shape(self, document: Mapping[Any, Any]) -> None:
        for key in document:
            if key not in FIELDS:
                near = difflib.get_close_matches(str(key)[:100], FIELDS, n=1)
                hint = f" Did you mean {near[0]}?" if near else ""
                self.refuse(said_back(key), "unknown_field", f"A run document has no such field.{hint}")
                if len(self.errors) >= MOST_ERRORS:
                    break
        kind = document.get("kind")
        if isinstance(kind, str) and kind in NOT_OFFERED:
            self.refuse("kind", "not_offered", NOT_OFFERED[kind])
            # The rest is examined as what is offered, so that all is said at once.
            document = {**document, "kind": Run.Kind.SCRIPTED_TEST.value}
        serializer = RunSpecSerializer()
        for name, part in serializer.fields.items():
            try:
                value = part.run_validation(document.get(name, serializers.empty))
            except serializers.ValidationError as error:
                self.refuse(name, *_first(name, error))
            except serializers.SkipField:
                continue
            else:
                self.values[name] = value

    def _task_set(self) -> TaskSet | None:
        if not self.has("task_set"):
            return None
        name = self.values["task_set"]
        sets = TaskSet.objects.for_workspace(self.workspace).current()
        found = sets.filter(name=name).first()
        if found is None:
            known = _listed(sets.values_list("name", flat=True)[: MOST_NAMES + 1])
            self.refuse(
                "task_set",
                "unknown_task_set",
                f"This workspace has no task set of that name. It has: {known or 'none'}.",
            )
        return found

    def _template(self) -> TemplateVersion | None:
        if not self.has("template"):
            return None
        named = self.values["template"]
        versions = TemplateVersion.objects.filter(template__workspace=self.workspace).select_related(
            "template"
        )
        name, at, number = named.partition("@")
        published = [
            str(v) for v in versions.filter(status=TemplateVersion.Status.PUBLISHED)[: MOST_NAMES + 1]
        ]
        if not at:
            fitting = [known for known in published if known.startswith(f"{name}@")]
            example = fitting[0] if fitting else f"{name}@1"
            self.refuse("template", "version_missing", f"Name the version too, such as {example}.")
            return None
        found = None
        if re.fullmatch(r"[1-9][0-9]{0,8}", number, re.ASCII):
            found = versions.filter(template__name=name, version=int(number)).first()
        if found is None:
            known = _listed(published)
            self.refuse(
                "template",
                "unknown_template",
                f"This workspace has no such template version. Published: {known or 'none'}.",
            )
        elif found.status == TemplateVersion.Status.DRAFT:
            self.refuse("template", "draft_template", f"{found} is a draft. Publish it first.")
            return None
        elif found.status == TemplateVersion.Status.RETIRED:
            self.refuse("template", "retired_template", f"{found} is retired and takes no new runs.")
            return None
        return found

    def _tasks(self, task_set: TaskSet | None, template_version: TemplateVersion | None) -> list[Task]:
        if not self.has("tasks"):
            return []
        ids: list[str] = self.values["tasks"]
        twice = sorted({task_id for task_id in ids if ids.count(task_id) > 1})
        if twice:
            self.refuse("tasks", "duplicate_task", f"Named more than once: {_listed(twice)}.")
        if task_set is None:
            return []
        found = {task.task_id: task for task in Task.objects.filter(task_set=task_set, task_id__in=ids)}
        unknown = [task_id for task_id in dict.fromkeys(ids) if task_id not in found]
        if unknown:
            self.refuse("tasks", "unknown_task", f"Not in {task_set}: {_listed(unknown)}.")
        if self.values.get("kind") == Run.Kind.SCRIPTED_TEST:
            without = [task.task_id for task in found.values() if not task.has_recipe]
            if without:
                self.refuse(
                    "tasks",
                    "no_recipe",
                    "A scripted test replays a recipe, and no recipe is known for: "
                    f"{_listed(sorted(without), most=limits.TASKS.high)}.",
                )
        if template_version is not None:
            self._apps(template_version, list(found.values()))
        return [found[task_id] for task_id in ids if task_id in found]

    def _apps(self, version: TemplateVersion, tasks: list[Task]) -> None:
        family = version.family
        lacking = [task for task in tasks if family.isdisjoint(task.templates)]
        if lacking:
            able = set.intersection(*(set(task.templates) for task in lacking))
            hint = f" Templates that do: {_listed(sorted(able))}." if able else ""
            self.refuse(
                "template",
                "lacks_apps",
                f"{version} does not have the applications of: "
                f"{_listed(sorted(task.task_id for task in lacking))}.{hint}",
            )

    def _rules(self) -> None:
        values = self.values
        if (
            self.has("fork_copies", "prefix_steps")
            and values["fork_copies"] > 1
            and not values["prefix_steps"]
        ):
            self.refuse("fork_copies", "fork_needs_prefix", "A fork needs at least one prefix step.")
        if self.has("parallel_copies") and values["parallel_copies"] > self.workspace.run_parallelism:
            self.refuse(
                "parallel_copies",
                "above_run_parallelism",
                f"At most {self.workspace.run_parallelism}: the run parallelism of this workspace.",
            )
        if values.get("model") is not None:
            self.refuse("model", "not_allowed", "A scripted test plays no model: leave it null.")
        if values.get("stop_after_valid") and self.has("tasks", "parallel_copies", "fork_copies", "rounds"):
            planned = self._planned()
            if values["stop_after_valid"] > planned:
                self.refuse(
                    "stop_after_valid",
                    "above_planned",
                    f"The target can be at most what this run plays: {planned:,}.",
                )

    def _planned(self) -> int:
        values = self.values
        planned: int = len(values["tasks"]) * values["parallel_copies"] * values["fork_copies"]
        return planned * int(values["rounds"])


def _first(name: str, error: serializers.ValidationError) -> tuple[str, str]:
    """Code and message of the first thing wrong with a field; a list's item is named by its place."""
    detail: Any = error.detail
    where = ""
    while not hasattr(detail, "code"):
        if isinstance(detail, dict):
            place, detail = next(iter(detail.items()))
            where = f"Item {int(place) + 1}: " if isinstance(place, int) else ""
        else:
            detail = detail[0]
    if name == "kind" and detail.code == "invalid_choice":
        return "unknown_kind", "Must be scripted_test."
    if detail.code in ("required", "null"):
        return str(detail.code), f"{where}must not be null." if where else "This field is required."
    return str(detail.code), f"{where}{detail}"


def _listed(names: Iterable[str], most: int = MOST_NAMES) -> str:
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def _name_for(task_set: TaskSet, tasks: list[Task]) -> str:
    what = (tasks[0].title or tasks[0].task_id) if len(tasks) == 1 else f"{task_set.name}, {len(tasks)} tasks"
    return f"Scripted test: {what}"[: limits.NAME_LENGTH]
