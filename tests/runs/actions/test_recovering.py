"""A run that nobody can go on with: it waits for a while, then ends."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from console.actor import Actor
from console.models import User
from desktops.actions.pause import pause_worker, resume_worker
from runs.actions import advance
from runs.models import Run
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db


@pytest.fixture
def deserted(new_run: Callable[..., Run], worker: PaperWorker, owner: User) -> Run:
    """A run whose only worker was paused after its first attempt: the second one is queued."""
    worker.slots = 1
    worker.worker = worker.connect()
    run = new_run()
    one_pass()
    (first,) = worker.offered()
    pause_worker(worker.worker, actor=Actor.person(owner))
    worker.play(first)
    one_pass()
    run.refresh_from_db()
    return run


def test_a_run_waits_for_a_paused_worker_and_goes_on_with_it(
    deserted: Run, worker: PaperWorker, owner: User
) -> None:
    assert deserted.status == "recovering"
    one_pass()
    one_pass()
    deserted.refresh_from_db()
    assert (deserted.status, deserted.stop_reason) == ("recovering", "")

    resume_worker(worker.worker, actor=Actor.person(owner))
    one_pass()
    worker.play(worker.offered()[0])
    one_pass()
    deserted.refresh_from_db()
    assert (deserted.status, deserted.success) == ("completed", 2)


def test_a_run_that_nobody_comes_back_to_ends_as_worker_lost(
    deserted: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advance, "NO_WORKER", timedelta(0))
    one_pass()
    deserted.refresh_from_db()
    assert (deserted.status, deserted.stop_reason) == ("failed", "worker_lost")
    assert (deserted.done, deserted.cancelled) == (1, 1)
