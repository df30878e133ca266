"""Webhooks and mail when a run ends: written with the end itself."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from console.actions.webhooks import add_webhook
from console.actor import Actor
from console.models import Delivery, User, Workspace
from runs.actions.stop import cancel_run
from runs.models import Run
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

NewRun = Callable[..., Run]


@pytest.fixture
def told(workspace: Workspace, owner: User) -> Callable[[], list[dict[str, Any]]]:
    events = ["run.completed", "run.failed", "run.cancelled"]
    url = "https://hooks.example.com/"
    add_webhook(workspace=workspace, url=url, events=events, actor=Actor.person(owner))
    return lambda: [json.loads(row.body) for row in Delivery.objects.filter(recipient=None).order_by("pk")]


def test_the_end_is_told_once_with_the_figures_of_the_end(
    new_run: NewRun, worker: PaperWorker, told: Callable[[], list[dict[str, Any]]]
) -> None:
    run = new_run(tasks=["task-1"])
    one_pass()
    assert told() == []
    assignment = worker.offered()[0]
    computer = worker.start(assignment, seconds_ago=40)
    worker.verdict(assignment, 1.0)
    worker.stop(assignment, computer)
    worker.end(assignment)
    one_pass()
    one_pass()
    [said] = told()
    assert said["type"] == "run.completed"
    document = said["data"]["run"]
    assert (document["id"], document["status"], document["counts"]["success"]) == (
        str(run.pk),
        "completed",
        1,
    )
    assert document["cost"]["spent_usd"] == str(Run.objects.get(pk=run.pk).budget.spent.normalize())
    assert document["why"] == "The attempt has ended."


def test_a_cancelled_run_is_told_as_such(
    new_run: NewRun, owner: User, told: Callable[[], list[dict[str, Any]]]
) -> None:
    cancel_run(new_run(), actor=Actor.person(owner))
    assert [said["type"] for said in told()] == ["run.cancelled"]


def test_an_end_that_is_rolled_back_is_told_to_nobody(
    new_run: NewRun, owner: User, told: Callable[[], list[dict[str, Any]]]
) -> None:
    run = new_run()
    with transaction.atomic():
        cancel_run(run, actor=Actor.person(owner))
        transaction.set_rollback(True)
    assert told() == []


def test_whoever_started_it_gets_a_short_mail_if_there_is_a_server(
    new_run: NewRun, worker: PaperWorker, owner: User, member: User, settings: Any
) -> None:
    cancel_run(new_run(), actor=Actor.person(owner))
    assert not Delivery.objects.exists()
    settings.EMAIL_HOST = "mail.example.test"
    run = new_run(actor=member, tasks=["task-1"])
    one_pass()
    for assignment in worker.offered():
        worker.play(assignment)
    one_pass()
    row = Delivery.objects.get()
    assert row.recipient == member
    assert row.subject == f"Run #{run.number} nightly smoke: completed, every attempt finished"
    assert "1 of 1 recipe passed." in row.body
    assert "Spent " in row.body
    assert "/accounts/email/" in row.body
    assert f"/w/lab/runs/{run.number}/" in row.body


def test_whoever_wants_none_gets_none(new_run: NewRun, owner: User, member: User, settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.test"
    member.run_mail = False
    member.save()
    cancel_run(new_run(actor=member), actor=Actor.person(owner))
    assert not Delivery.objects.exists()


def test_whoever_has_left_the_workspace_gets_none(
    new_run: NewRun, owner: User, member: User, settings: Any, workspace: Workspace
) -> None:
    settings.EMAIL_HOST = "mail.example.test"
    run = new_run(actor=member)
    workspace.memberships.filter(user=member).delete()
    cancel_run(run, actor=Actor.person(owner))
    assert not Delivery.objects.exists()
