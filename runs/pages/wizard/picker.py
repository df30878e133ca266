"""The task picker of the first step: one form that filters, chooses and goes on, with or without scripts.

Every press posts the ticks of the tasks that are shown, so what was chosen under another filter is kept:
chosen = (chosen before, not shown) + (shown and ticked), in the order of the task set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.http import QueryDict

from runs.models import Task, TaskSet

from .draft import Draft

SHOWN_MOST = 400  # rows of the picker; beyond that the filters lead to the rest


@dataclass(frozen=True)
class Filter:
    """What of the task set is shown. Lives in the page's address, never in the draft."""

    q: str = ""
    app: str = ""
    recipe: bool = False
    chosen: bool = False

    @classmethod
    def of(cls, query: QueryDict) -> Filter:
        """Out of an address, or out of the posted form, where pressing an application sends `do=app:<name>`."""
        do = query.get("do", "")
        return cls(
            query.get("q", "").strip()[:200],
            (do.removeprefix("app:") if do.startswith("app:") else query.get("app", ""))[:50],
            query.get("recipe") == "on",
            query.get("chosen") == "on",
        )

    def query(self) -> str:
        parts = {"q": self.q, "app": self.app, "recipe": "on" * self.recipe, "chosen": "on" * self.chosen}
        return urlencode({name: value for name, value in parts.items() if value})

    def matches(self, task: Row, chosen: set[str]) -> bool:
        text = f"{task.task_id} {task.title} {task.instruction} {' '.join(task.apps)}".lower()
        return (
            (not self.q or all(word in text for word in self.q.lower().split()))
            and (not self.app or self.app in task.apps)
            and (not self.recipe or task.has_recipe)
            and (not self.chosen or task.task_id in chosen)
        )


@dataclass(frozen=True)
class Row:
    task_id: str
    title: str
    instruction: str
    apps: list[str]
    templates: list[str]
    has_recipe: bool

    @property
    def words(self) -> str:
        """What the search looks at, for the script that filters sooner than the server."""
        return f"{self.task_id} {self.title} {self.instruction} {' '.join(self.apps)}".lower()


def rows(task_set: TaskSet | None) -> list[Row]:
    """The whole set without its documents and recipes: a few hundred bytes a task."""
    if task_set is None:
        return []
    has_recipe = ExpressionWrapper(Q(recipe__isnull=False), output_field=BooleanField())
    fields = ("task_id", "title", "instruction", "related_apps", "templates")
    found = Task.objects.filter(task_set=task_set).annotate(known=has_recipe).values_list(*fields, "known")
    return [Row(*values) for values in found]


def apps_of(tasks: Iterable[Row]) -> list[tuple[str, int]]:
    """(application, how many tasks name it), most first."""
    counted = Counter(app for task in tasks for app in task.apps)
    return sorted(counted.items(), key=lambda item: (-item[1], item[0]))


def chosen_after(draft: Draft, form: QueryDict, tasks: list[Row]) -> list[str]:
    """The chosen ids after a press on one of the picker's buttons (`do`), in the set's order.

    Ids that the set does not have stay at the end: `runs.spec` names them, silence would not.
    """
    shown, ticked = set(form.get("shown", "").split()), set(form.getlist("tasks"))
    before = set(draft.tasks)
    chosen = (before - shown) | ticked
    do = form.get("do", "")
    if do == "choose-recipes":
        chosen |= {task.task_id for task in tasks if task.has_recipe}
    elif do == "choose-shown":
        asked = Filter.of(form)
        chosen |= {task.task_id for task in tasks if task.has_recipe and asked.matches(task, chosen)}
    elif do == "clear":
        chosen = set()
    elif do == "keep-recipes":
        chosen &= {task.task_id for task in tasks if task.has_recipe}
    known = [task.task_id for task in tasks]
    return [task_id for task_id in known if task_id in chosen] + sorted(chosen - set(known))


def read(draft: Draft, form: QueryDict, tasks: list[Row]) -> dict[str, Any]:
    """The workload's part of the document. Another task set begins with nothing chosen."""
    values: dict[str, Any] = {
        "kind": form.get("kind", "")[:50],
        "name": form.get("name", "").strip(),
        "task_set": form.get("task_set", "")[:100],
    }
    same = values["task_set"] == draft.document.get("task_set")
    values["tasks"] = chosen_after(draft, form, tasks) if same else []
    return values
