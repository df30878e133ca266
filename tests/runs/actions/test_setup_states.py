"""The desktop after a task's setup is saved, for later copies and rounds of the task to start from."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from console.models import User, Workspace
from desktops.models import State
from runs.models import Event, Run, Task
from runs.supervisor import one_pass
from tests.factories import sha256
from tests.runs.paper_worker import PaperWorker

NewRun = Callable[..., Run]
CONFIG = [{"type": "execute", "parameters": {"command": ["true"]}}]


@pytest.fixture
def worker(workspace: Workspace, owner: User, material: dict[str, object]) -> PaperWorker:
    for task in Task.objects.all():
        task.document = {**task.document, "config": CONFIG}
        task.save(update_fields=["document"])
    return PaperWorker(workspace, owner, slots=8, can_fork=True)


def named(worker: PaperWorker) -> list[str]:
    one_pass()
    return [one.payload["setup_state"] for one in worker.offered()]


def test_copies_and_rounds_of_a_task_share_a_name_and_other_tasks_have_another(
    new_run: NewRun, worker: PaperWorker
) -> None:
    new_run(parallel_copies=2)
    first, again, other, other_again = named(worker)
    assert first == again != other == other_again
    assert first.startswith("setup-")


def test_what_is_played_once_is_not_saved(new_run: NewRun, worker: PaperWorker) -> None:
    new_run()
    assert named(worker) == ["", ""]


def test_another_run_of_the_same_starts_from_the_same(new_run: NewRun, worker: PaperWorker) -> None:
    new_run(tasks=["task-1"], rounds=2)
    new_run(tasks=["task-1"], parallel_copies=2)
    assert len(set(named(worker))) == 1


@pytest.mark.parametrize("change", [{"keep_setup": False}, {"config": []}])
def test_a_task_that_says_so_or_sets_nothing_up_is_set_up_anew(
    new_run: NewRun, worker: PaperWorker, change: dict[str, object]
) -> None:
    task = Task.objects.get(task_id="task-1")
    task.document = {**task.document, **change}
    task.save(update_fields=["document"])
    new_run(tasks=["task-1"], rounds=2)
    assert set(named(worker)) == {""}


def test_a_change_of_template_task_or_setup_makes_another_name(new_run: NewRun, worker: PaperWorker) -> None:
    new_run(tasks=["task-1"], rounds=2)
    before = set(named(worker))
    task = Task.objects.get(task_id="task-1")
    task.document = {**task.document, "config": [*CONFIG, *CONFIG]}
    task.save(update_fields=["document"])
    new_run(tasks=["task-1"], rounds=2)
    assert len({*named(worker)} - before) == 1


def test_a_worker_that_cannot_save_is_not_asked_to(
    new_run: NewRun, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    worker.can_fork = False
    worker.connect()
    new_run(rounds=2)
    assert set(named(worker)) == {""}


def test_prefixes_share_it_and_forks_need_none(new_run: NewRun, worker: PaperWorker) -> None:
    Task.objects.update(recipe=[{"action": "click", "x": 1, "y": 1}] * 3)
    new_run(tasks=["task-1"], fork_copies=2, prefix_steps=1, parallel_copies=2)
    first, second = named(worker)
    assert first == second != ""
    worker.play_prefix(worker.offered()[0])
    one_pass()
    assert [one.payload["setup_state"] for one in worker.offered_of("attempt")] == ["", ""]


def test_what_was_saved_and_started_from_is_on_record(new_run: NewRun, worker: PaperWorker) -> None:
    run = new_run(tasks=["task-1"], parallel_copies=2)
    one_pass()
    first, second = worker.offered()
    name = first.payload["setup_state"]
    digest = worker.save(first, worker.start(first), name=name)
    worker.start(second, from_state=name)
    worker.say(
        second,
        {
            "kind": "setup_done",
            "seconds": 0.1,
            "steps": 0,
            "screenshot": sha256("screen"),
            "from_state": name,
        },
    )
    state = State.objects.get(name=name)
    assert (state.origin, state.uses, state.label) == ("setup", 1, "After the setup of task-1")
    tried = {one.number: one.try_rows.get() for one in run.attempts.all()}
    assert (tried[1].from_state, tried[1].from_digest) == ("", "")
    assert (tried[2].from_state, tried[2].from_digest) == (name, digest)
    told = Event.objects.get(run=run, kind="state_saved")
    assert (told.attempt_number, told.data["digest"]) == (1, digest)


def test_an_attempt_saves_nothing_but_its_setup(new_run: NewRun, worker: PaperWorker) -> None:
    new_run(tasks=["task-1"], rounds=2)
    one_pass()
    one = worker.offered()[0]
    computer = worker.start(one)
    for name in ("prefix-1", "saved-1", "warm-1"):
        worker.save(one, computer, name=name)
    assert not State.objects.exists()
