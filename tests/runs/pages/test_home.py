from __future__ import annotations

import json
import re
from datetime import timedelta
from html import unescape

import pytest
from django.utils import timezone

from console.actions.tokens import issue_token
from console.actor import Actor
from runs.models import Run
from tests.factories import AttemptFactory, WorkerFactory, recount

from .stage import a_run, end, play
from .test_budget import running

pytestmark = pytest.mark.django_db
PAGE = "/w/lab/"


def test_a_new_workspace_says_what_is_missing(workspace, member, client_for):
    text = client_for(member).get(PAGE).content.decode()
    assert "Ready to start?" in text
    assert "No template is published yet" in text


@pytest.mark.parametrize("page", [PAGE, "/w/lab/runs/"])
def test_the_call_that_a_new_workspace_is_shown_lacks_nothing_but_its_material(
    workspace, owner, client_for, api, page
):
    text = unescape(client_for(owner).get(page).content.decode())
    body = json.loads(re.search(r"-d '(.+?)'", text, re.DOTALL)[1])
    reply = api().post("/v1/runs", body, format="json")
    assert {error["field"] for error in reply.json()["errors"]} <= {"task_set", "template"}


def test_what_plays_and_what_ended_is_shown(workspace, member, client_for):
    WorkerFactory(workspace=workspace, name="yard-a")
    playing, ended = a_run(workspace, name="now playing"), a_run(workspace, name="over and done")
    play(ended)
    end(ended)
    text = client_for(member).get(PAGE).content.decode()
    assert text.index(playing.name) < text.index("Recently ended") < text.index(ended.name)
    assert f'Last scripted test, <a class="plain strong" href="/w/lab/runs/{ended.number}/">' in text


def test_what_somebody_should_look_at_is_listed(workspace, owner, client_for):
    WorkerFactory(workspace=workspace, name="yard-a")
    WorkerFactory(workspace=workspace, name="yard-b", last_seen_at=timezone.now() - timedelta(hours=2))
    run = a_run(workspace)
    AttemptFactory(run=run, faulty=True)
    recount(run)
    end(a_run(workspace), status=Run.Status.FAILED, stop_reason=Run.StopReason.WORKER_LOST)
    issue_token(
        workspace=workspace,
        user=owner,
        name="laptop",
        scopes=["runs:read"],
        expires_in=timedelta(days=2),
        actor=Actor.person(owner),
    )
    text = client_for(owner).get(PAGE).content.decode()
    for words in (
        "Worker yard-b is lost",
        "1 attempt has no verdict",
        "failed: worker lost",
        "Token laptop expires",
    ):
        assert words in text


def test_only_managers_hear_about_tokens(workspace, owner, member, client_for):
    a_run(workspace)
    issue_token(
        workspace=workspace,
        user=owner,
        name="laptop",
        scopes=["runs:read"],
        expires_in=timedelta(days=2),
        actor=Actor.person(owner),
    )
    assert "Token laptop" not in client_for(member).get(PAGE).content.decode()


def test_a_wrong_method_is_refused(workspace, member, client_for):
    assert client_for(member).post(PAGE).status_code == 405


def test_an_outsider_gets_404(workspace, outsider, other_workspace, client_for):
    assert client_for(outsider).get(PAGE).status_code == 404


def test_a_failed_attempt_is_one_press_away_and_nothing_is_guessed_about_it(workspace, owner, client_for):
    WorkerFactory(workspace=workspace, name="yard-a")
    run = a_run(workspace)
    AttemptFactory(run=run, valid=True, reward=1.0)
    AttemptFactory(run=run, valid=True, reward=0.0)
    recount(run)
    end(run)
    failed = f"/w/lab/runs/{run.number}/rollouts/?outcome=fail"
    for text in (
        client_for(owner).get(PAGE).content.decode(),
        client_for(owner).get(f"{PAGE}runs/{run.number}/").content.decode(),
    ):
        assert f'href="{failed}"' in text
        assert "a checker changed" not in text
        assert "Nothing: every attempt" not in text


def test_a_cancelled_scripted_test_says_nothing_of_the_pipeline(workspace, owner, client_for):
    whole, cancelled = a_run(workspace), a_run(workspace)
    play(whole)
    end(whole)
    end(cancelled, status=Run.Status.CANCELLED, stop_reason=Run.StopReason.CANCELLED_BY_USER)
    text = client_for(owner).get(PAGE).content.decode()
    assert f'Last scripted test, <a class="plain strong" href="/w/lab/runs/{whole.number}/">' in text


def test_a_run_that_plays_says_its_status_and_that_its_end_is_not_known(workspace, member, client_for):
    a_run(workspace, status=Run.Status.PREPARING)
    text = client_for(member).get(PAGE).content.decode()
    row = text.split('data-l="Status and end"')[1].split("</td>")[0]
    assert "Preparing" in row
    assert "its end is not known yet" in row


def test_attempts_of_a_run_that_prepares_are_starting(workspace, member, client_for):
    run = a_run(workspace, status=Run.Status.PREPARING)
    AttemptFactory(run=run, status="running", tries=1, started_at=timezone.now())
    recount(run)
    text = client_for(member).get(PAGE).content.decode()
    assert "1 starting" in text
    assert "1 playing" not in text
    text = client_for(member).get(f"{PAGE}runs/{run.number}/").content.decode()
    assert "1 starting · 0.0% finished" in text


def test_the_budget_of_a_page_and_of_its_rail_are_of_one_moment(workspace, owner, client_for):
    running(a_run(workspace), seconds=100, reserved="0.5")
    reply = client_for(owner).get(PAGE)
    assert reply.context["used"].spent == reply.context["shell"].spent > 0
