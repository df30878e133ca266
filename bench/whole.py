"""The whole product under measurement: the bench's console, with a supervisor and a worker with real desktops."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.embedded.api import Api
from console.embedded.home import PROJECT
from console.embedded.processes import end_process, ending_with_parent
from desktops.images.build import recipe_digest
from desktops.worker.engine.base import Engine
from desktops.worker.engine.choose import open_engine

from .console import Console
from .site import Site

if TYPE_CHECKING:
    from runs.models import TaskSet

DESKTOPS = 8
WORKER = "bench-whole"
TASK_SET, WAIT = "bench-whole", "wait"
CALC = [{"type": "launch", "parameters": {"command": ["libreoffice", "--norestore", "--calc"]}}]
# Setups that take some seconds, in the office desktop: one that is kept, one that is not.
SET_UP_ONCE, SET_UP_ANEW = "set-up-once", "set-up-anew"
PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 0.02  # between two looks: much less than what is measured


@dataclass
class Whole:
    """`engine` sees the worker's desktops and no others. `worker` may be killed; `start_worker` starts it again."""

    api: Api
    engine: Engine
    start_worker: Callable[[], None]
    worker: subprocess.Popen[bytes]
    templates: dict[str, str]

    def start(self, task: str, template: str, **document: Any) -> str:
        """Start a run of that task; its id."""
        common = {"kind": "scripted_test", "name": "bench", "task_set": TASK_SET, "spend_cap_usd": "100.00"}
        document = common | {"tasks": [task], "template": self.templates[template]} | document
        return str(self.api.post("/v1/runs", document)["id"])

    def play(self) -> str:
        """Start a run of as many desktops that do nothing, and wait until all are there; its id."""
        run = self.start(WAIT, "basic", parallel_copies=DESKTOPS, max_steps=50)
        until(lambda: self._playing(run) == DESKTOPS, f"{DESKTOPS} desktops")
        return run

    def _playing(self, run: str) -> int:
        from runs.models import Event

        return Event.objects.filter(run_id=uuid.UUID(run), kind="setup_done").count()

    def status(self, run: str) -> str:
        from runs.models import Run

        return str(Run.objects.values_list("status", flat=True).get(pk=run))

    def end(self, run: str) -> None:
        self.api.post(f"/v1/runs/{run}/cancel", {})
        until(lambda: self.status(run) == "cancelled", "the end of a run")


def until(look: Callable[[], bool], what: str) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not look():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come in {PATIENCE_SECONDS:g} s")
        time.sleep(LOOK_SECONDS)


@contextlib.contextmanager
def whole(site: Site, console: Console) -> Iterator[Whole]:
    """Up until the context ends; no desktop is left then. Raises TimeoutError."""
    home = site.folder / "whole-worker"
    home.mkdir(exist_ok=True)
    with contextlib.ExitStack() as held:
        engine = open_engine(site.address, home)
        held.callback(engine.close)
        held.callback(engine.sweep, [])
        templates = _material(console, engine)
        supervisor = _start("supervisor", ["manage.py", "supervise"], site.folder)
        held.callback(end_process, supervisor, (signal.SIGTERM, signal.SIGKILL), seconds=10)
        environment = {
            "DESKYARD_URL": console.url,
            "DESKYARD_WORKER_TOKEN": console.worker_token,
            "DESKYARD_WORKER_NAME": WORKER,
            "DESKYARD_WORKER_HOME": str(home),
            "DESKYARD_ENGINE": site.address,
            "DESKYARD_SLOTS": str(DESKTOPS),
            "DESKYARD_READY": "0",  # those that are there are of a run
        }

        def start_worker() -> None:
            place.worker = _start("worker", ["-m", "desktops.worker"], site.folder, environment)

        place = Whole(Api(console.url, console.token), engine, start_worker, supervisor, templates)
        start_worker()
        held.callback(lambda: _end_worker(place.worker))
        yield place


def _end_worker(worker: subprocess.Popen[bytes]) -> None:
    worker.send_signal(signal.SIGCONT)  # it may have been frozen
    end_process(worker, (signal.SIGTERM, signal.SIGKILL), seconds=40)


def _start(
    name: str, arguments: list[str], folder: Path, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    with (folder / f"whole-{name}.log").open("ab") as log:
        return subprocess.Popen(
            ending_with_parent(signal.SIGKILL, [sys.executable, *arguments]),
            cwd=PROJECT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )


def _material(console: Console, engine: Engine) -> dict[str, str]:
    """What the runs need in the console's workspace: the images as templates, each by its name, and the tasks."""
    from console.actor import Actor
    from console.models import Workspace
    from desktops.actions.templates import publish_template
    from runs.models import TaskSet

    workspace = Workspace.objects.get(slug=console.workspace)
    Workspace.objects.filter(pk=workspace.pk, run_parallelism__lt=DESKTOPS).update(run_parallelism=DESKTOPS)
    there = {image.digest for image in engine.images()}
    digests = {name: f"sha256:{recipe_digest(name)}" for name in ("basic", "office")}
    templates = {
        name: publish_template(
            workspace=workspace,
            name=name,
            title=name,
            description="",
            apps=[],
            digest=digest,
            actor=Actor.system("the bench"),
        )
        for name, digest in digests.items()
        if digest in there
    }
    tasks, made = TaskSet.objects.get_or_create(
        workspace=workspace,
        name=TASK_SET,
        version=1,
        defaults={"title": "The bench's", "digest": "sha256:" + "0" * 64},
    )
    if made:
        wait: dict[str, Any] = {"action": "wait", "seconds": 60, "window": "no such window", "optional": True}
        _add_task(tasks, 1, WAIT, "basic", [wait] * 10)
        _add_task(tasks, 2, SET_UP_ONCE, "office", [{"action": "done"}], config=CALC)
        _add_task(tasks, 3, SET_UP_ANEW, "office", [{"action": "done"}], config=CALC, keep_setup=False)
    return {name: str(version) for name, version in templates.items()}


def _add_task(
    tasks: TaskSet, position: int, name: str, template: str, recipe: list[dict[str, Any]], **document: Any
) -> None:
    from runs.models import Task

    plain = {"id": name, "instruction": "Wait.", "config": [], "evaluator": {"func": "infeasible"}}
    Task.objects.create(
        task_set=tasks,
        position=position,
        task_id=name,
        title=name,
        instruction="Wait.",
        templates=[template],
        document=plain | document,
        digest=f"sha256:{position:064x}",
        recipe=recipe,
        recipe_digest=f"sha256:{position:064x}",
    )
