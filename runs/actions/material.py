"""Task sets come in: a set with new content becomes a new version, the same content changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from django.core.exceptions import ValidationError
from django.db import transaction

from console.actions.audit import record
from console.actor import Actor
from console.models import Workspace
from desktops.protocol.actions import Action
from runs.models import Task, TaskSet
from runs.recipes import load as recipes
from runs.tasksets import folder, osworld
from runs.tasksets import load as own
from runs.tasksets.osworld import ImportedTask, ImportReport, NotATaskSet, Refusal

TITLE_LENGTH = 60
RESERVED = frozenset({*own.OWN_SETS, "osworld"})


class NothingCanRun(Exception):
    """None of these tasks can run here; `refused` has the reason of each."""

    def __init__(self, refused: list[Refusal]) -> None:
        super().__init__(
            f"None of these {len(refused):,} files is a task that can run here. Nothing was stored."
        )
        self.refused = refused


def _title(task: ImportedTask) -> str:
    """A few words for tables: the task's own title, else the start of its instruction."""
    text = str(task.data.get("title") or task.instruction).strip()
    return text if len(text) <= TITLE_LENGTH else text[: TITLE_LENGTH - 1].rsplit(" ", 1)[0] + "…"


@transaction.atomic
def store_task_set(
    *,
    workspace: Workspace,
    name: str,
    title: str,
    report: ImportReport,
    recipe_for: Callable[[str], list[Action] | None],
    actor: Actor,
    description: str = "",
    source: str = "",
    licence: str = "",
) -> TaskSet:
    """Store the tasks as the set's next version, with the recipes known for them; of the same tasks there is none, and
    only what cannot run is noted anew. Raises NothingCanRun."""
    if not report.tasks:
        raise NothingCanRun(report.refused)
    digest = own.set_digest(report.tasks)
    solved = {task.id: recipe_for(task.id) for task in report.tasks}
    current = (
        TaskSet.objects.for_workspace(workspace)
        .filter(name=name)
        .current()
        .select_for_update(no_key=True)
        .first()
    )
    known = {} if current is None else dict(current.tasks.values_list("task_id", "recipe_digest"))
    wanted = {key: f"sha256:{recipes.recipe_digest(found)}" if found else "" for key, found in solved.items()}
    refused = [{"file": one.file, "code": one.code, "reason": one.sentence} for one in report.refused]
    if current is not None and current.digest == f"sha256:{digest}" and known == wanted:
        current.refused = refused
        current.save(update_fields=["refused"])
        return current
    if current is not None:
        current.is_current = False
        current.save(update_fields=["is_current"])
    stored = TaskSet.objects.create(
        workspace=workspace,
        name=name,
        version=current.version + 1 if current else 1,
        title=title,
        description=description,
        digest=f"sha256:{digest}",
        source=source,
        licence=licence,
        refused=refused,
    )
    Task.objects.bulk_create(
        Task(
            task_set=stored,
            task_id=task.id,
            position=position,
            title=_title(task),
            instruction=task.instruction,
            related_apps=task.related_apps,
            templates=task.templates,
            document=task.data,
            digest=f"sha256:{task.digest}",
            recipe=_plain(solved[task.id]),
            recipe_digest=wanted[task.id],
        )
        for position, task in enumerate(report.tasks, start=1)
    )
    record(
        workspace=workspace,
        actor=actor,
        action="task_set.imported",
        subject=f"task set {stored}",
        detail={"tasks": len(report.tasks), "refused": len(report.refused), "digest": stored.digest},
    )
    return stored


def _plain(recipe: list | None) -> list | None:  # type: ignore[type-arg]
    return (
        None
        if recipe is None
        else [action.model_dump(exclude_defaults=True) | {"action": action.action} for action in recipe]
    )


def import_osworld(*, workspace: Workspace, path: Path, actor: Actor) -> TaskSet:
    """Import an OSWorld checkout or its examples folder as the set `osworld`. Raises NotATaskSet, NothingCanRun."""
    return store_task_set(
        workspace=workspace,
        name="osworld",
        title="OSWorld",
        description="Tasks of the OSWorld benchmark, as imported.",
        source=str(path.name),
        licence="Apache-2.0",
        report=osworld.read(path),
        recipe_for=partial(recipes.recipe_for, "osworld"),
        actor=actor,
    )


def import_folder(*, workspace: Workspace, path: Path, name: str, actor: Actor) -> TaskSet:
    """Import a folder of tasks, recipes among it, as the set of that name. Raises NotATaskSet, NothingCanRun."""
    try:
        TaskSet._meta.get_field("name").clean(name, None)
    except ValidationError as error:
        raise NotATaskSet(f"A task set cannot be called {name!r}: {' '.join(error.messages)}") from error
    if name in RESERVED:
        raise NotATaskSet(f"The name {name} is taken by tasks that come with the console. Choose another.")
    report, found = folder.read(path)
    return store_task_set(
        workspace=workspace,
        name=name,
        title=name,
        source=path.name,
        report=report,
        recipe_for=found.get,
        actor=actor,
    )


def store_own_set(*, workspace: Workspace, actor: Actor, name: str = "deskyard-basics") -> TaskSet:
    """Our own tasks, which come with the console."""
    return store_task_set(
        workspace=workspace,
        name=name,
        title="Deskyard basics",
        description="Short everyday tasks over the applications of the templates, each with a recipe and a checker.",
        report=ImportReport(tasks=own.load(name).tasks),
        recipe_for=partial(recipes.recipe_for, name),
        actor=actor,
    )
