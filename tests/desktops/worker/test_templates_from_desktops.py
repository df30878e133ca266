"""The whole way through the console on a real desktop: opened, changed, saved as a draft, published, and run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from docker.errors import DockerException

from console.actor import Actor
from console.embedded.api import Api
from console.models import User, Workspace
from desktops.models import Computer, TemplateVersion, Worker
from desktops.worker.engine.base import Engine, ImagingEngine
from desktops.worker.engine.choose import open_engine
from desktops.worker.engine.provision import client
from desktops.worker.guest_client import Guest
from runs.actions.create import create_run
from runs.models import Run
from runs.supervisor import one_pass
from tests.factories import TaskFactory, TaskSetFactory, TemplateVersionFactory, document

from .test_with_console import PAUSE, Process, console

__all__ = ["console"]  # the fixture

pytestmark = [pytest.mark.desktop, pytest.mark.django_db(transaction=True)]

NAME = "with-a-note"
TASK = {
    "id": "read-the-note",
    "instruction": "Is the note there?",
    "config": [],
    "evaluator": {
        "func": "exact_match",
        "result": {"type": "vm_command_line", "command": ["cat", "/home/user/Desktop/note.txt"]},
        "expected": {"type": "rule", "rules": {"expected": "kept"}},
    },
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "worker"


@pytest.fixture
def engine(engine_address: str, home: Path) -> Iterator[Engine]:
    """The worker's own, for whoever sits at its desktops. What was made of them goes again."""
    with closing(open_engine(engine_address, home)) as engine:
        if not isinstance(engine, ImagingEngine):
            pytest.skip("this engine makes no images of desktops")
        yield engine
        assert engine.list_owned() == []
    with closing(client(engine_address)) as builder, suppress(DockerException):
        builder.images.remove(f"localhost/deskyard/{NAME}:1", force=True)


@pytest.fixture
def basic(workspace: Workspace, image: Callable[[str], str]) -> TemplateVersion:
    return TemplateVersionFactory(workspace=workspace, digest=image("basic"))


@pytest.fixture
def worker(
    console: tuple[str, Process],
    engine: Engine,
    engine_address: str,
    basic: TemplateVersion,
    home: Path,
    secret_for: Callable[..., str],
) -> Iterator[Worker]:
    environ = os.environ | {
        "DESKYARD_URL": console[0],
        "DESKYARD_WORKER_TOKEN": secret_for("workers:connect"),
        "DESKYARD_WORKER_NAME": "real",
        "DESKYARD_WORKER_HOME": str(home),
        "DESKYARD_ENGINE": engine_address,
        "DESKYARD_SLOTS": "2",
        "DESKYARD_WARM": "0",
    }
    process = Process(["-m", "desktops.worker"], environ)
    try:
        supervise(lambda: Worker.objects.filter(connected=True).exists())
        yield Worker.objects.get()
    finally:
        process.end()


@pytest.fixture
def calls(console: tuple[str, Process], secret_for: Callable[..., str]) -> Api:
    return Api(console[0], secret_for())


def supervise(until: Callable[[], Any], seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, "it did not come true in time"
        one_pass()
        time.sleep(PAUSE)  # between two passes


def opened(calls: Api) -> dict[str, Any]:
    """A computer that is ready."""
    path = f"/v1/computers/{calls.post('/v1/computers', {'template': 'basic@1'})['id']}"
    supervise(lambda: calls.get(path)["status"] in ("ready", "closed"))
    computer: dict[str, Any] = calls.get(path)
    assert computer["status"] == "ready", computer
    return computer


def run_in(engine: Engine, command: str) -> None:
    """As somebody at the screen of the only desktop that there is."""
    desk = engine.find(str(Computer.objects.get(stopped_at=None).pk))
    assert desk is not None
    guest = Guest(desk.connect)
    assert guest.run(command).returncode == 0
    guest.disconnect()


def saved_as_template(calls: Api, computer: dict[str, Any]) -> TemplateVersion:
    """A draft, its image made."""
    path = f"/v1/computers/{computer['id']}"
    calls.post(f"{path}/template?wait=0", {"name": NAME, "title": "With a note"})
    supervise(lambda: calls.get(path)["asks"][0]["status"] != "asked")
    ask = calls.get(path)["asks"][0]
    assert (ask["status"], ask["template"]) == ("done", f"{NAME}@1"), ask
    return TemplateVersion.objects.get(template__name=NAME)


def played(workspace: Workspace, owner: User, tasks: str, template: str) -> Run:
    asked = document(tasks, ["task-1"], template)
    run = create_run(workspace=workspace, document=asked, actor=Actor.person(owner))
    supervise(lambda: Run.objects.get(pk=run.pk).status in Run.TERMINAL)
    return Run.objects.get(pk=run.pk)


def test_a_computer_that_was_changed_becomes_a_template_that_runs(
    worker: Worker,
    engine: Engine,
    calls: Api,
    workspace: Workspace,
    owner: User,
    client_for: Callable[[User], Client],
) -> None:
    computer = opened(calls)
    run_in(engine, "printf kept > ~/Desktop/note.txt")
    draft = saved_as_template(calls, computer)
    assert draft.status == TemplateVersion.Status.DRAFT
    client_for(owner).post(f"/w/{workspace.slug}/computers/{computer['id']}/close/")
    client_for(owner).post(f"/w/{workspace.slug}/templates/{NAME}/1/publish/")
    draft.refresh_from_db()
    assert draft.status == TemplateVersion.Status.PUBLISHED

    tasks = TaskSetFactory(workspace=workspace, tasks=0)
    TaskFactory(task_set=tasks, position=1, document=TASK, recipe=[{"action": "done"}])
    for template, outcome in ((f"{NAME}@1", "success"), ("basic@1", "fail")):
        run = played(workspace, owner, tasks.name, template)
        (attempt,) = run.attempts.all()
        assert (run.stop_reason, attempt.status, attempt.verifier) == ("all_tasks_done", "done", "valid")
        assert attempt.outcome == outcome, template
        assert attempt.computer.template_version == run.template_version
    assert not Computer.objects.filter(stopped_at=None).exists()
