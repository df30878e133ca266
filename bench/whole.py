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
from typing import Any

from console.embedded.api import Api
from console.embedded.home import PROJECT
from console.embedded.processes import end_process, ending_with_parent
from desktops.worker.engine.base import Engine
from desktops.worker.engine.choose import open_engine

from .console import Console
from .site import Site

DESKTOPS = 8
WORKER = "bench-whole"
TASK_SET, TASK = "bench-whole", "wait"
PATIENCE_SECONDS = 120.0
LOOK_SECONDS = 0.02  # between two looks: much less than what is measured


@dataclass
class Whole:
    """`engine` sees the worker's desktops and no others. `worker` may be killed; `start_worker` starts it again."""

    api: Api
    engine: Engine
    start_worker: Callable[[], None]
    worker: subprocess.Popen[bytes]
    template: str

    def play(self) -> str:
        """Start a run of as many desktops that do nothing, and wait until all are there; its id."""
        document = {
            "kind": "scripted_test",
            "name": "bench",
            "task_set": TASK_SET,
            "tasks": [TASK],
            "template": self.template,
            "parallel_copies": DESKTOPS,
            "max_steps": 50,
            "spend_cap_usd": "100.00",
        }
        run = str(self.api.post("/v1/runs", document)["id"])
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
        template = _material(console, site.image.digest)
        supervisor = _start("supervisor", ["manage.py", "supervise"], site.folder)
        held.callback(end_process, supervisor, (signal.SIGTERM, signal.SIGKILL), seconds=10)
        environment = {
            "DESKYARD_URL": console.url,
            "DESKYARD_WORKER_TOKEN": console.worker_token,
            "DESKYARD_WORKER_NAME": WORKER,
            "DESKYARD_WORKER_HOME": str(home),
            "DESKYARD_ENGINE": site.address,
            "DESKYARD_SLOTS": str(DESKTOPS),
        }

        def start_worker() -> None:
            place.worker = _start("worker", ["-m", "desktops.worker"], site.folder, environment)

        place = Whole(Api(console.url, console.token), engine, start_worker, supervisor, template)
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


def _material(console: Console, digest: str) -> str:
    """What the run needs in the console's workspace: the image as a template, a task that takes long; `basic@N`."""
    from console.actor import Actor
    from console.models import Workspace
    from desktops.actions.templates import publish_template
    from runs.models import Task, TaskSet

    workspace = Workspace.objects.get(slug=console.workspace)
    Workspace.objects.filter(pk=workspace.pk, run_parallelism__lt=DESKTOPS).update(run_parallelism=DESKTOPS)
    version = publish_template(
        workspace=workspace,
        name="basic",
        title="Basic desktop",
        description="",
        apps=[],
        digest=digest,
        actor=Actor.system("the bench"),
    )
    tasks, made = TaskSet.objects.get_or_create(
        workspace=workspace,
        name=TASK_SET,
        version=1,
        defaults={"title": "Waiting", "digest": "sha256:" + "0" * 64},
    )
    if made:
        wait: dict[str, Any] = {"action": "wait", "seconds": 60, "window": "no such window", "optional": True}
        checker = {"func": "infeasible"}
        Task.objects.create(
            task_set=tasks,
            position=1,
            task_id=TASK,
            title="Wait",
            instruction="Wait.",
            templates=["basic"],
            document={"id": TASK, "instruction": "Wait.", "config": [], "evaluator": checker},
            digest="sha256:" + "0" * 64,
            recipe=[wait] * 10,
            recipe_digest="sha256:" + "0" * 64,
        )
    return str(version)
