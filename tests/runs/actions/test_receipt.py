"""The receipt: counted from the run's computers, clean only once each worker has swept after its last one."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.actions.budgets import cost_of, set_cap
from console.actor import Actor
from console.models import LedgerEntry, User, Workspace
from desktops.actions import report
from desktops.models import Assignment, Computer
from desktops.protocol import messages
from runs.actions.retry import retry_invalid
from runs.models import AttemptTry, Event, Run, RunSweep
from runs.receipt import receipt
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

NewRun = Callable[..., Run]


def sweep(worker: PaperWorker, *, seconds: float, left: int = 0) -> None:
    """The worker tells of a sweep, so many seconds from now."""
    at = timezone.now() + timedelta(seconds=seconds)
    beat = messages.Heartbeat(swept_at=at, swept_left=left)
    report.heartbeat(worker=worker.worker, connection=worker.connection, beat=beat)
    one_pass()


def fresh(run: Run) -> Run:
    return Run.objects.select_related("budget").get(pk=run.pk)


def play_all(worker: PaperWorker) -> None:
    one_pass()
    for assignment in worker.offered():
        worker.play(assignment)
    one_pass()


def test_it_is_clean_only_after_a_sweep_later_than_the_last_stop(
    new_run: NewRun, worker: PaperWorker
) -> None:
    run = new_run()
    sweep(worker, seconds=-5)
    play_all(worker)
    first = receipt(fresh(run))
    assert (first.started, first.stopped, first.left, first.open) == (2, 2, 0, 0)
    assert (first.swept_at, first.waiting, first.clean) == (None, ["paper"], False)
    sweep(worker, seconds=-5)  # looked before the last desktop was gone
    assert not receipt(fresh(run)).clean
    sweep(worker, seconds=1)
    done = receipt(fresh(run))
    assert done.clean
    assert done.swept_at is not None
    assert done.cost == fresh(run).budget.spent
    sweep(worker, seconds=60)
    assert receipt(fresh(run)).swept_at == done.swept_at  # the first that told it


def test_every_worker_that_played_has_to_sweep(
    new_run: NewRun, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    other = PaperWorker(workspace, owner, name="second", slots=1)
    worker.slots = 1
    worker.connect()
    run = new_run()
    one_pass()
    for one in (worker, other):
        [assignment] = one.offered()
        one.play(assignment)
    one_pass()
    sweep(worker, seconds=1)
    half = receipt(fresh(run))
    assert (half.swept_at, half.waiting) == (None, ["second"])
    sweep(other, seconds=2)
    assert receipt(fresh(run)).clean


@pytest.mark.parametrize("left", ["enough", "little"])
def test_a_desktop_that_is_told_of_after_the_end_is_swept_for_anew_and_paid_as_far_as_the_cap_goes(
    left: str, new_run: NewRun, worker: PaperWorker, workspace: Workspace, owner: User
) -> None:
    other = PaperWorker(workspace, owner, name="second", slots=1)
    run = new_run(tasks=["task-1"])
    one_pass()
    late, early = (worker, other) if worker.offered() else (other, worker)
    assignment = late.offered()[0]
    Assignment.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    report.disconnect(worker=late.worker, connection=late.connection)
    one_pass()
    one_pass()
    early.play(early.offered()[0])
    one_pass()
    sweep(early, seconds=1)
    sweep(late, seconds=1)
    assert receipt(fresh(run)).clean
    # Its worker stood still when its desktop began, and has only now come to say so.
    spent = fresh(run).budget.spent
    if left == "little":
        set_cap(fresh(run).budget, spent + Decimal("0.0001"))
    computer = late.start(assignment, seconds_ago=30)
    late.stop(assignment, computer)
    entry = LedgerEntry.objects.get(subject=computer)
    assert entry.seconds is not None
    assert entry.seconds >= 30
    whole = cost_of(entry.seconds, entry.rate_usd_per_hour)
    assert entry.cost == (whole if left == "enough" else Decimal("0.0001"))
    budget = fresh(run).budget
    assert (budget.spent, budget.reserved) == (spent + entry.cost, 0)
    said = Event.objects.filter(run=run, data__computer=Computer.objects.get(pk=computer).label)
    assert list(said.order_by("seq").values_list("kind", flat=True)) == [
        "computer_started",
        "computer_stopped",
    ]
    assert str(AttemptTry.objects.get(assignment=assignment).computer_id) == computer
    told = receipt(fresh(run))
    assert (told.started, told.stopped, told.waiting) == (2, 2, [late.name])
    sweep(late, seconds=5)
    done = receipt(fresh(run))
    assert done.clean
    assert done.swept_at is not None
    assert done.swept_at > Computer.objects.latest("stopped_at").stopped_at


def test_what_a_sweep_could_not_remove_of_others_is_told_and_not_the_runs(
    new_run: NewRun, worker: PaperWorker
) -> None:
    run = new_run(tasks=["task-1"])
    play_all(worker)
    sweep(worker, seconds=1, left=2)
    found = receipt(fresh(run))
    assert (found.left, found.swept_left, found.clean) == (0, 2, True)


def test_a_reopened_run_is_swept_anew(new_run: NewRun, worker: PaperWorker, owner: User) -> None:
    run = new_run(tasks=["task-1"])
    for _ in range(3):
        one_pass()
        worker.break_down(worker.offered()[0])
    one_pass()
    sweep(worker, seconds=0)
    assert receipt(fresh(run)).clean
    retry_invalid(run, actor=Actor.person(owner))
    assert not RunSweep.objects.exists()
    play_all(worker)
    again = receipt(fresh(run))
    assert (again.started, again.stopped, again.waiting) == (4, 4, ["paper"])


@pytest.mark.parametrize("route", ["/w/lab/runs/1/"])
def test_the_page_and_the_api_tell_the_same(
    new_run: NewRun,
    worker: PaperWorker,
    owner: User,
    client_for: Callable,
    api: Callable[..., APIClient],
    route: str,  # type: ignore[type-arg]
) -> None:
    run = new_run(tasks=["task-1"])
    assert api().get(f"/v1/runs/{run.pk}").json()["receipt"] is None
    play_all(worker)
    assert "not yet looked for desktops left behind" in client_for(owner).get(route).content.decode()
    sweep(worker, seconds=1)
    told = api().get(f"/v1/runs/{run.pk}").json()["receipt"]
    assert (told["started"], told["stopped"], told["left"], told["clean"]) == (1, 1, 0, True)
    text = client_for(owner).get(route).content.decode()
    assert "Started 1, stopped 1, swept at" in text
    assert "0 left. Nothing more will be billed." in text


def test_a_run_without_a_desktop_has_a_receipt_too(
    new_run: NewRun,
    owner: User,
    client_for: Callable,  # type: ignore[type-arg]
) -> None:
    run = new_run()
    client_for(owner).post(f"/w/lab/runs/{run.number}/cancel/")
    assert receipt(fresh(run)).clean
    text = client_for(owner).get(f"/w/lab/runs/{run.number}/").content.decode()
    assert "No desktop was started, and nothing is billed." in text
