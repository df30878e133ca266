"""Each stop reason has its sentence and says what to do next; cancelling and recovering say what goes on."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from runs.actions.advance import RETRIED_ENDED, SUPERVISOR
from runs.actions.stop import begin_stop
from runs.models import Run
from runs.pages import sentences
from runs.supervisor import one_pass
from tests.factories import EventFactory
from tests.runs.actions.conftest import new_run, worker

from .stage import a_run, end, play

__all__ = ["new_run", "worker"]  # fixtures
pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("reason", Run.StopReason.values)
@pytest.mark.parametrize("manages", [True, False])
def test_every_reason_says_why_and_what_to_do_next(reason, manages, workspace, owner, member, client_for):
    run = a_run(workspace)
    play(run, finished=1)
    run.spec["stop_after_valid"] = 1
    run.save()
    end(run, stop_reason=reason, status=Run.ENDS_AS[Run.StopReason(reason)], cancelled=1)
    run = Run.objects.select_related("budget", "template_version__template").get(pk=run.pk)
    assert len(sentences.why_stopped(run)) > 10
    words = sentences.what_next(run, manages=manages)
    assert len(words) > 10
    text = client_for(owner if manages else member).get(f"/w/lab/runs/{run.number}/").content.decode()
    assert words in text
    assert sentences.why_stopped(run) in text
    assert reason in text


def test_a_run_with_attempts_without_a_verdict_offers_to_try_them_again(workspace, owner, client_for):
    run = a_run(workspace)
    play(run, finished=1)
    run.attempts.filter(number=2).update(status="error")
    run.refresh_from_db()
    run.done, run.error, run.valid, run.success = 1, 1, 1, 1
    run.save()
    end(run)
    text = client_for(owner).get(f"/w/lab/runs/{run.number}/").content.decode()
    assert "The one without a verdict can be tried again in this run." in text
    assert f"/w/lab/runs/{run.number}/retry/" in text


def test_cancelling_says_since_when_by_whom_and_what_is_left(new_run, worker, workspace, owner, client_for):
    run = new_run()
    one_pass()
    for assignment in worker.offered():
        worker.start(assignment)
    client = client_for(owner)
    client.post(f"/w/lab/runs/{run.number}/cancel/")
    text = client.get(f"/w/lab/runs/{run.number}/").content.decode()
    assert "It has been stopping since" in text
    assert "by Olga Owner" in text
    assert "2 desktops are going away" in text


def test_recovering_says_which_worker_and_until_when(new_run, worker, owner, client_for):
    run = new_run(tasks=["task-1"])
    one_pass()
    worker.start(worker.offered()[0])
    one_pass()
    past = timezone.now() - timedelta(seconds=40)
    type(worker.worker).objects.update(connected=False, last_seen_at=past)
    Run.objects.filter(pk=run.pk).update(status="recovering")
    run.refresh_from_db()
    EventFactory(run=run, kind="run_status", data={"old": "running", "new": "recovering"})
    text = client_for(owner).get(f"/w/lab/runs/{run.number}/").content.decode()
    assert "It has been recovering since" in text
    assert '<b class="strong">paper</b> went quiet' in text
    assert "If no worker with basic@1 is back by" in text
    assert "model attempt" not in text  # a scripted test has none


def test_a_reopened_run_says_plainly_that_its_reason_is_the_first_one(workspace, member, client_for):
    run = a_run(workspace, tasks=4, reopened=1, stop_detail=RETRIED_ENDED)
    play(run, finished=2)
    end(run, stop_reason=Run.StopReason.TIME_CAP_REACHED, cancelled=2)
    text = client_for(member).get(f"/w/lab/runs/{run.number}/").content.decode()
    assert "This is why it ended the first time: the run had its" in text
    assert "The reason stays, as what it had left out was not played." in text


def test_a_run_that_ends_by_itself_names_nobody(new_run, worker, owner, client_for):
    run = new_run()
    one_pass()
    worker.start(worker.offered()[0])
    run.refresh_from_db()
    begin_stop(run, Run.StopReason.TIME_CAP_REACHED, actor=SUPERVISOR)
    text = client_for(owner).get(f"/w/lab/runs/{run.number}/").content.decode()
    assert "It has been stopping since" in text
    assert "supervisor" not in text
