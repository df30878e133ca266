from collections.abc import Callable
from typing import Any

import pytest

from console.actor import Actor
from console.models import User, Workspace
from runs.actions.create import create_run
from runs.models import Run, Task
from tests.factories import document
from tests.runs.paper_worker import PaperWorker


@pytest.fixture
def new_run(workspace: Workspace, owner: User, material: dict[str, Any]) -> Callable[..., Run]:
    """A queued run of task-1 and task-2 on basic@1; keywords change the document."""

    def make(actor: User = owner, **changes: Any) -> Run:
        tasks = changes.pop("tasks", ["task-1", "task-2"])
        wanted = document("basics", tasks, **changes)
        return create_run(workspace=workspace, document=wanted, actor=Actor.person(actor))

    return make


@pytest.fixture
def worker(workspace: Workspace, owner: User, material: dict[str, Any]) -> PaperWorker:
    return PaperWorker(workspace, owner)


@pytest.fixture
def forking_worker(workspace: Workspace, owner: User, material: dict[str, Any]) -> PaperWorker:
    """One that can save desktops, with room for all that a forking run plays at once; its tasks take five clicks."""
    Task.objects.update(recipe=[{"action": "click", "x": 10, "y": 20}] * 5)
    return PaperWorker(workspace, owner, slots=8, can_fork=True)


@pytest.fixture
def forking(new_run: Callable[..., Run]) -> Callable[..., Run]:
    def make(**changes: Any) -> Run:
        asked = {"tasks": ["task-1"], "fork_copies": 4, "prefix_steps": 3, **changes}
        return new_run(**asked)

    return make
