"""The tab Forks: a run's trees."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs.models import Attempt, Run
from runs.pages.forks import GROUPS

from .stage import a_run, play, with_steps

pytestmark = pytest.mark.django_db


def forking(workspace, *, tasks: int = 1, forks: int = 3, finished: int = 0, **fields) -> Run:
    run = a_run(workspace, tasks=tasks, copies=forks, **fields)
    run.spec.update(parallel_copies=1, fork_copies=forks, prefix_steps=2)
    run.save(update_fields=["spec"])
    for attempt in play(run, finished=finished):
        attempt.fork = (attempt.number - 1) % forks + 1
        attempt.fork_method = Attempt.ForkMethod.REPLAY
        attempt.save(update_fields=["fork", "fork_method"])
    return run


def page(run: Run) -> str:
    return f"/w/lab/runs/{run.number}/forks/"


def test_a_group_shows_its_prefix_the_branch_point_and_how_each_fork_ended(workspace, member, client_for):
    run = forking(workspace, finished=2)
    first, second, third = run.attempts.order_by("number")
    click = {"action": "click", "x": 1, "y": 2}
    with_steps(first, click, click, click)
    Attempt.objects.filter(pk=second.pk).update(reward=0.0, fork_method="live")
    branch = first.try_rows.get().steps.get(number=2).screenshot
    text = client_for(member).get(page(run)).content.decode()
    assert branch in text
    assert f"/w/lab/runs/{run.number}/attempts/1/?step=3" in text
    assert re.findall(r"(live fork|prefix played again)", text) == ["prefix played again", "live fork"]
    words = re.findall(r'<span class="strong">(\d)</span> <span>(\w+)</span>', text)
    assert words == [("1", "Success"), ("2", "Fail"), ("3", "Queued")]
    assert f"/w/lab/runs/{run.number}/attempts/{third.number}/" in text
    assert "1 verified of 2 valid" in text or "1 success of 2 valid" in text


def test_many_groups_come_in_pages_with_as_many_questions(workspace, member, client_for):
    client = client_for(member)
    asked = []
    for run in (forking(workspace, tasks=2), forking(workspace, tasks=GROUPS + 5)):
        client.get(page(run))
        with CaptureQueriesContext(
            connection,
        ) as queries:
            text = client.get(page(run)).content.decode()
        asked.append(len(queries))
    assert asked[0] == asked[1]
    assert text.count('class="stem"') == GROUPS
    rest = client.get(page(run), {"page": "2"}).content.decode()
    assert rest.count('class="stem"') == 5
    assert f"Groups {GROUPS + 1} to {GROUPS + 5} of {GROUPS + 5}" in rest
    for nonsense in ("0", "x", "9" * 30):
        assert client.get(page(run), {"page": nonsense}).status_code == 200


def test_a_run_without_forks_has_no_such_tab(workspace, member, client_for):
    run = a_run(workspace)
    assert "/forks/" not in client_for(member).get(f"/w/lab/runs/{run.number}/").content.decode()
    assert client_for(member).get(page(run)).status_code == 302


def test_before_the_first_round_it_says_so(workspace, member, client_for):
    run = forking(workspace)
    run.attempts.all().delete()
    Run.objects.filter(pk=run.pk).update(rounds_created=0)
    assert "No fork is planned yet" in client_for(member).get(page(run)).content.decode()


def test_an_outsider_gets_404(workspace, outsider, other_workspace, client_for):
    run = forking(workspace)
    assert client_for(outsider).get(page(run)).status_code == 404


def test_an_attempts_page_links_the_forks_that_share_its_prefix(workspace, member, client_for):
    run = forking(workspace, tasks=2, finished=6)
    fifth = run.attempts.get(number=5)
    one = with_steps(fifth, {"action": "click", "x": 1, "y": 2}).try_rows.get()
    one.steps.update(prefix=True)
    text = client_for(member).get(f"/w/lab/runs/{run.number}/attempts/5/").content.decode()
    for number in (4, 6):
        assert f'/attempts/{number}/">{number}</a>' in text
    assert "prefix, shared with" in text
    assert "The prefix, played again" in text
    assert f"{page(run)}?page=1" in text
