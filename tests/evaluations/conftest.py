from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from console.actor import Actor
from console.models import User, Workspace
from evaluations.actions.submit import add, submit
from evaluations.documents import Batch
from evaluations.models import Evaluation
from runs.models import TaskSet
from tests.runs.paper_worker import PaperWorker

NewEvaluation = Callable[..., Evaluation]


def batch(*tasks: str, **fields: Any) -> dict[str, Any]:
    """Of tasks of the set `basics` on basic@1, as it is sent."""
    return {
        "environment": {"kind": "sandbox", "template": "basic@1"},
        "judge": "osworld@v1",
        "spec": [{"task_set": "basics", "task": task, "recipe": True} for task in tasks or ("task-1",)],
        "policy": "recipes",
        **fields,
    }


def read(document: dict[str, Any]) -> dict[str, Any]:
    asked = Batch(data=document)
    asked.is_valid(raise_exception=True)
    return dict(asked.validated_data)


@pytest.fixture
def basics(material: dict[str, Any]) -> TaskSet:
    found: TaskSet = material["task_set"]
    return found


@pytest.fixture
def worker(workspace: Workspace, owner: User, basics: TaskSet) -> PaperWorker:
    return PaperWorker(workspace, owner)


@pytest.fixture
def new_evaluation(workspace: Workspace, owner: User, basics: TaskSet) -> NewEvaluation:
    """Sealed, of task-1 and task-2 on basic@1; keywords change the document."""

    def make(
        name: str = "first", *, tasks: tuple[str, ...] = ("task-1", "task-2"), **fields: Any
    ) -> Evaluation:
        document = read(batch(*tasks, **fields))
        return submit(workspace=workspace, name=name, document=document, actor=Actor.person(owner))

    return make


@pytest.fixture
def add_to(workspace: Workspace, owner: User) -> Callable[..., Evaluation]:
    def more(name: str, *tasks: str, **fields: Any) -> Evaluation:
        document = read(batch(*tasks, **fields))
        return add(workspace=workspace, name=name, document=document, actor=Actor.person(owner))

    return more
