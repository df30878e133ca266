"""The real worker process dials the real console: Daphne over a test database, made-up desktops.

Nothing stands in for either side; only the supervisor's passes are made by the test, so that it sees each.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from console.actor import Actor
from console.models import Blob, LedgerEntry, User, Workspace
from desktops.models import Computer, Worker
from desktops.worker.testing_desktop import IMAGE
from runs.actions.create import create_run
from runs.actions.stop import cancel_run
from runs.models import Attempt, AttemptTry, Run, Step
from runs.supervisor import one_pass
from tests.factories import TaskFactory, TaskSetFactory, TemplateVersionFactory, document

from .orders import TASK

pytestmark = pytest.mark.django_db(transaction=True)

PAUSE = 0.1  # between two passes, as the supervisor's tick is between two of its own
GOOD = [{"action": "type", "text": "hello"}, {"action": "done"}]
WRONG = [{"action": "type", "text": "bye"}, {"action": "done"}]
ENDLESS = [{"action": "move", "x": 1, "y": 1}] * 50


class Process:
    """A child of the test; ended with it."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self.command, self.environ = command, environ
        self.child = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, *self.command], env=self.environ)

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def again(self) -> None:
        self.child = self._start()

    def end(self) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            self.child.wait(30)


@pytest.fixture
def console(tmp_path: Path) -> Iterator[tuple[str, Process]]:
    settings = connection.settings_dict
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    host, name = settings["HOST"], settings["NAME"]
    address = f"host={host}" if str(host).startswith("/") else ""
    query = f"?{address}" if address else ""
    where = "" if address else f"{host}:{settings['PORT']}"
    user = settings["USER"] + (f":{settings['PASSWORD']}" if settings["PASSWORD"] else "")
    environ = os.environ | {
        "DATABASE_URL": f"postgresql://{user}@{where}/{name}{query}",
        "DESKYARD_HOME": str(tmp_path / "home"),
        "PYTHONWARNINGS": "",
    }
    daphne = Process(["-m", "daphne", "-p", str(port), "console.asgi:application"], environ)
    try:
        _wait(lambda: _listens(port), 60)
        yield f"http://127.0.0.1:{port}", daphne
    finally:
        daphne.end()


@pytest.fixture
def worker(
    console: tuple[str, Process], secret_for: Callable[..., str], tmp_path: Path, workspace: Workspace
) -> Iterator[Process]:
    environ = os.environ | {
        "DESKYARD_URL": console[0],
        "DESKYARD_WORKER_TOKEN": secret_for("workers:connect"),
        "DESKYARD_WORKER_NAME": "real",
        "DESKYARD_WORKER_HOME": str(tmp_path / "worker"),
        "DESKYARD_ENGINE": "fake",
        "DESKYARD_SLOTS": "2",
    }
    process = Process(["-m", "desktops.worker"], environ)
    try:
        _wait(lambda: Worker.objects.filter(workspace=workspace, connected=True).exists(), 60)
        yield process
    finally:
        process.end()


@pytest.fixture
def launch(workspace: Workspace, owner: User) -> Callable[..., Run]:
    """Start a run over one task for each recipe given."""
    TemplateVersionFactory(workspace=workspace, digest=IMAGE.digest)

    def start(*recipes: list[dict[str, Any]], **changes: Any) -> Run:
        tasks = TaskSetFactory(workspace=workspace, tasks=0)
        for place, recipe in enumerate(recipes, 1):
            TaskFactory(task_set=tasks, position=place, document=TASK, recipe=recipe)
        names = [f"task-{place}" for place in range(1, len(recipes) + 1)]
        wanted = document(tasks.name, names, **changes)
        return create_run(workspace=workspace, document=wanted, actor=Actor.person(owner))

    return start


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _wait(holds: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(PAUSE)  # between two looks


def supervise(run: Run, until: Callable[[], object], seconds: float = 120) -> None:
    def look() -> object:
        one_pass()
        run.refresh_from_db()
        return until()

    _wait(look, seconds)


def test_a_run_goes_from_queued_to_completed(worker, launch):
    run = launch(GOOD, WRONG, GOOD)
    supervise(run, lambda: run.status in Run.TERMINAL)
    attempts = list(run.attempts.order_by("task__position"))
    assert (run.status, run.stop_reason) == ("completed", "all_tasks_done")
    assert [attempt.reward for attempt in attempts] == [1.0, 0.0, 1.0]
    assert all(attempt.verifier == Attempt.Verifier.VALID for attempt in attempts)
    shots = set(Step.objects.filter(attempt_try__attempt__run=run).values_list("screenshot", flat=True))
    assert shots <= set(Blob.objects.values_list("sha256", flat=True))
    assert not Computer.objects.filter(stopped_at=None).exists()
    assert LedgerEntry.objects.filter(settled_at=None).count() == 0
    worker.end()
    assert worker.child.returncode == 0


def test_a_cancelled_run_leaves_no_desktop(worker, launch, owner):
    run = launch(ENDLESS, max_steps=50)
    supervise(run, lambda: Computer.objects.filter(stopped_at=None).exists())
    cancel_run(run, actor=Actor.person(owner))
    supervise(run, lambda: run.status in Run.TERMINAL, 30)
    assert run.status == "cancelled"
    assert not Computer.objects.filter(stopped_at=None).exists()


def test_a_console_that_is_killed_in_the_middle_loses_and_doubles_nothing(console, worker, launch):
    run = launch(*[GOOD] * 4, parallel_copies=2)
    supervise(run, lambda: Step.objects.exists())
    console[1].kill()
    console[1].again()
    supervise(run, lambda: run.status in Run.TERMINAL)
    assert run.status == "completed"
    assert run.attempts.filter(reward=1.0).count() == 8
    for one in AttemptTry.objects.filter(attempt__run=run, ok=True):
        assert list(one.steps.order_by("number").values_list("number", flat=True)) == [1, 2]


def test_a_worker_that_is_killed_and_comes_back_finishes_the_run(worker, launch):
    run = launch(*[GOOD] * 4, parallel_copies=2)
    supervise(run, lambda: Step.objects.exists())
    worker.kill()
    worker.again()
    supervise(run, lambda: run.status in Run.TERMINAL)
    assert run.status == "completed"
    assert run.attempts.filter(reward=1.0).count() == 8
    assert not Computer.objects.filter(stopped_at=None).exists()
