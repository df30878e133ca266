"""Computers, Events, Metrics and Configuration."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest

from runs import spec
from runs.models import Run
from tests.factories import (
    AssignmentFactory,
    AttemptFactory,
    AttemptTryFactory,
    ComputerFactory,
    EventFactory,
    WorkerFactory,
    blob,
    recount,
)

from .stage import a_run, end, log, play, with_steps

pytestmark = pytest.mark.django_db
TABS = ("computers", "events", "metrics", "configuration")


def page(run: Run, tab: str, query: str = "") -> str:
    return f"/w/lab/runs/{run.number}/{tab}/{query}"


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("kind", Run.Kind.values)
def test_a_tab_of_a_run_with_everything(tab, kind, workspace, owner, client_for):
    run = a_run(workspace, tasks=3, kind=kind)
    for attempt in play(run, finished=2)[:2]:
        with_steps(attempt, {"action": "click", "x": 1, "y": 2})
    log(run, owner)
    assert client_for(owner).get(page(run, tab)).status_code == 200


@pytest.mark.parametrize("tab", TABS)
def test_a_tab_of_a_run_that_has_nothing_yet(tab, workspace, member, client_for):
    run = a_run(workspace, status=Run.Status.QUEUED)
    assert client_for(member).get(page(run, tab)).status_code == 200


@pytest.mark.parametrize("tab", TABS)
def test_a_wrong_method_is_refused(tab, workspace, member, client_for):
    assert client_for(member).post(page(a_run(workspace), tab)).status_code == 405


@pytest.mark.parametrize("tab", [*TABS, "events.jsonl"])
def test_an_outsider_gets_404(tab, workspace, outsider, other_workspace, client_for):
    run = a_run(workspace)
    assert client_for(outsider).get(page(run, tab).rstrip("/")).status_code in (301, 404)
    assert client_for(outsider).get(page(run, tab)).status_code == 404


def test_held_desktops_show_their_last_screen_and_until_when_they_are_paid(workspace, member, client_for):
    run = a_run(workspace)
    worker = WorkerFactory(workspace=workspace)
    attempt = AttemptFactory(run=run, status="running", worker=worker)
    assignment = AssignmentFactory(worker=worker, subject=attempt.pk, budget=run.budget, status="held")
    picture = blob(workspace)
    computer = ComputerFactory(
        assignment=assignment,
        template_version=run.template_version,
        group=run.pk,
        last_screenshot=picture.sha256,
    )
    AttemptTryFactory(attempt=attempt, assignment=assignment, computer=computer, ok=None, ended_at=None)
    recount(run)
    text = client_for(member).get(page(run, "computers")).content.decode()
    assert "<b>1</b> held now" in text
    assert f"/w/lab/blobs/{picture.sha256}" in text
    assert "paid until" in text


def test_once_all_are_gone_held_now_is_0(workspace, member, client_for):
    run = a_run(workspace)
    with_steps(play(run)[0])
    end(run)
    assert "Held now: 0." in client_for(member).get(page(run, "computers")).content.decode()


def test_events_filter_by_kind_and_attempt(workspace, owner, client_for):
    run = a_run(workspace)
    log(run, owner)
    client = client_for(owner)
    steps = client.get(page(run, "events", "?kind=step")).content.decode()
    assert "Step 1: click" in steps
    assert "Created by" not in steps
    assert "No event is like that" in client.get(page(run, "events", "?attempt=2")).content.decode()


def test_events_resume_after_a_number(workspace, owner, client_for):
    run = a_run(workspace)
    log(run, owner)
    text = client_for(owner).get(page(run, "events", "?after=21")).content.decode()
    assert text.count('<td class="faint num off">') == 1


def test_an_event_of_a_kind_from_the_future_is_named(workspace, owner, client_for):
    run = a_run(workspace)
    EventFactory(run=run, kind="moon_landing", data={})
    assert "moon_landing" in client_for(owner).get(page(run, "events")).content.decode()


def test_the_download_is_json_lines_in_order_and_resumes(workspace, owner, client_for):
    run = a_run(workspace)
    log(run, owner)
    reply = client_for(owner).get(f"/w/lab/runs/{run.number}/events.jsonl?after=2")
    lines = [json.loads(line) for line in b"".join(reply.streaming_content).splitlines()]
    assert [line["seq"] for line in lines] == list(range(3, 23))
    assert {"seq", "at", "kind", "version", "attempt", "data"} == set(lines[0])


def test_a_scripted_test_never_gets_an_interval_in_its_metrics(workspace, member, client_for):
    run = a_run(workspace, tasks=3)
    play(run)
    assert "Interval" not in client_for(member).get(page(run, "metrics")).content.decode()


def test_metrics_draw_latency_durations_and_where_time_went(workspace, member, client_for):
    run = a_run(workspace)
    for attempt in play(run):
        attempt.started_at = attempt.ended_at - timedelta(seconds=30)
        attempt.save(update_fields=["started_at"])
        with_steps(attempt, {"action": "click", "x": 1, "y": 2}, {"action": "done"})
    text = client_for(member).get(page(run, "metrics")).content.decode()
    for words in ("Wait for the screen to settle", "median 30", "Screen settling", "Cost over time"):
        assert words in text


def test_the_request_is_shown_and_compared(workspace, member, client_for):
    run, other = a_run(workspace, name="one"), a_run(workspace, name="<script>two")
    text = client_for(member).get(page(run, "configuration", f"?with={other.number}")).content.decode()
    assert "1 of 14 fields differ" in text
    assert "&lt;script&gt;two" in text
    assert "<script>two" not in text
    assert run.task_set.digest in text


def test_a_comparison_with_another_workspaces_run_shows_nothing_of_it(
    workspace, other_workspace, member, client_for
):
    run = a_run(workspace)
    a_run(other_workspace)
    other = a_run(other_workspace, name="secret plans")
    text = client_for(member).get(page(run, "configuration", f"?with={other.number}")).content.decode()
    assert "secret plans" not in text


@pytest.mark.parametrize(
    "tab", ["", "rollouts/", "computers/", "events/", "events.jsonl", "metrics/", "configuration/"]
)
@pytest.mark.parametrize("value", ["9" * 5000, "9" * 18, "\u00b2", "\u0663", "-1", "x"])
def test_a_number_in_the_address_that_is_none_changes_nothing(workspace, member, client_for, tab, value):
    run = a_run(workspace)
    names = ("after", "before", "page", "attempt", "with", "try", "q")
    for name in names:
        reply = client_for(member).get(f"/w/lab/runs/{run.number}/{tab}", {name: value})
        assert reply.status_code == 200


def test_the_request_is_written_in_the_order_in_which_it_is_asked_for(workspace, member, client_for):
    run = a_run(workspace)
    text = client_for(member).get(page(run, "configuration")).content.decode()
    keys = re.findall(r'<span class="k">&quot;(\w+)&quot;', text)
    assert keys == [name for name in spec.FIELDS if name in run.spec]
