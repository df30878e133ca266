"""The tab Forks: a run's trees."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.models import LedgerEntry
from desktops.models import Computer
from runs.events import Forked, append
from runs.models import Attempt, Prefix, PrefixTry, Run
from runs.pages.forks import GROUPS
from tests.factories import AttemptTryFactory, PrefixFactory, PrefixTryFactory, StepFactory

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
    run = forking(workspace, finished=1)
    first, second, third = run.attempts.order_by("number")
    click = {"action": "click", "x": 1, "y": 2}
    with_steps(first, click, click, click)
    failed = {"status": "done", "verifier": "valid", "reward": 0.0, "tries": 1}
    Attempt.objects.filter(pk=second.pk).update(**failed, fork_method="live")
    branch = first.try_rows.get().steps.get(number=2).screenshot
    text = client_for(member).get(page(run)).content.decode()
    assert branch in text
    assert f"/w/lab/runs/{run.number}/attempts/1/?step=3" in text
    assert re.findall(r"(live fork|prefix played again)", text) == ["prefix played again", "live fork"]
    words = re.findall(r'<span class="strong">(\d)</span> <span>(\w+)</span>', text)
    assert words == [("1", "Success"), ("2", "Fail"), ("3", "Queued")]
    assert f"/w/lab/runs/{run.number}/attempts/{third.number}/" in text
    assert "1 passed of 2 valid" in text or "1 success of 2 valid" in text


def test_many_groups_come_in_pages_with_as_many_questions(workspace, member, client_for):
    client = client_for(member)
    asked = []
    for run in (forking(workspace, tasks=2), forking(workspace, tasks=GROUPS + 5)):
        for number in range(1, run.planned // 3):
            with_prefix(run, number=number)
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
    with_steps(fifth, {"action": "click", "x": 1, "y": 2}, prefix=True)
    text = client_for(member).get(f"/w/lab/runs/{run.number}/attempts/5/").content.decode()
    for number in (4, 6):
        assert f'/attempts/{number}/">{number}</a>' in text
    assert "shared with" not in text
    assert "None: this attempt played the prefix again." in text
    assert f"{page(run)}?page=1" in text


CLICKS = [{"action": "click", "x": 1, "y": 2}, {"action": "type", "text": "shared"}]


def with_prefix(run: Run, *, number: int = 1, **fields) -> PrefixTry:
    """Of the group of this number: played on a desktop of its own; its attempts that began are its live forks."""
    each = run.spec["fork_copies"]
    of_group = run.attempts.filter(number__range=((number - 1) * each + 1, number * each))
    one = PrefixTryFactory(
        prefix__run=run, prefix__number=number, prefix__task=of_group[0].task, actions=CLICKS
    )
    of_group.update(prefix=one.prefix, fork_method="live")
    Prefix.objects.filter(pk=one.prefix_id).update(**fields)
    return one


def test_a_prefix_played_once_is_drawn_with_its_desktop_and_its_cost(workspace, member, client_for):
    run = forking(workspace, finished=2)
    shared = with_prefix(run)
    LedgerEntry.objects.create(
        workspace=workspace,
        budget=run.budget,
        subject=shared.computer_id,
        rate_usd_per_hour="0.06",
        opened_at=shared.computer.started_at,
        settled_at=shared.computer.stopped_at,
        seconds=15,
        cost="0.00025",
    )
    text = client_for(member).get(page(run)).content.decode()
    assert "Played once, then saved" in text
    assert f"{shared.computer.label}</span> · $0.0003, paid once" in text
    assert shared.prefix.screenshot in text
    assert f"/w/lab/runs/{run.number}/attempts/1/?step=3" in text
    assert re.findall(r"(live fork|prefix played again)", text) == ["live fork", "live fork"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"status": "running", "steps": 1, "ended_at": None}, "step 1 of 2"),
        ({"status": "queued", "steps": 0, "ended_at": None, "screenshot": ""}, "Queued"),
        (
            {"status": "error", "invalid_reasons": ["desktop_lost"]},
            "Desktop was lost. Each attempt plays it.",
        ),
        ({"status": "cancelled"}, "Cancelled"),
    ],
)
def test_a_prefix_says_how_far_it_is_or_why_it_was_not_saved(workspace, member, client_for, fields, said):
    run = forking(workspace, finished=0)
    prefix = PrefixFactory(run=run, **fields)
    run.attempts.update(prefix=prefix)
    assert said in client_for(member).get(page(run)).content.decode()


def test_a_forks_replay_begins_with_the_steps_of_the_prefix(workspace, member, client_for):
    run = forking(workspace, finished=1)
    shared = with_prefix(run)
    attempt = run.attempts.get(number=1)
    one = AttemptTryFactory(attempt=attempt, from_state=shared.prefix.state.name, from_digest="sha256:ab")
    StepFactory(attempt_try=one, number=3, action={"action": "key", "keys": ["Return"]})
    text = client_for(member).get(f"/w/lab/runs/{run.number}/attempts/1/").content.decode()
    words = re.findall(r'data-words="([^"]*)"', text)
    assert words == ["click 1, 2", "type “shared”", "key Return", "the end"]
    assert text.count("prefix, played once, shared with") == 2
    assert f'The saved desktop after the prefix on <span class="mono">{shared.computer.label}' in text


def test_an_attempt_that_played_the_prefix_itself_shows_its_own_steps(workspace, member, client_for):
    run = forking(workspace, finished=1)
    with_prefix(run)
    with_steps(run.attempts.get(number=1), *CLICKS, prefix=True)
    text = client_for(member).get(f"/w/lab/runs/{run.number}/attempts/1/").content.decode()
    assert "played once" not in text
    assert re.findall(r'data-words="([^"]*)"', text)[:2] == ["click 1, 2", "type “shared”"]


def test_the_prefixs_desktop_is_among_the_runs_computers(workspace, member, client_for):
    run = forking(workspace, finished=1)
    shared = with_prefix(run)
    text = client_for(member).get(f"/w/lab/runs/{run.number}/computers/").content.decode()
    assert shared.computer.label in text
    assert '<span class="faint">Prefix 1</span>' in text


def test_a_prefix_that_is_played_is_a_computer_held_now(workspace, member, client_for):
    run = forking(workspace, finished=0)
    prefix = PrefixFactory(run=run, status="running", steps=1, ended_at=None)
    one = PrefixTryFactory(prefix=prefix, ok=None, ended_at=None)
    Computer.objects.filter(pk=one.computer_id).update(stopped_at=None)
    Prefix.objects.filter(pk=prefix.pk).update(computer=one.computer)
    client = client_for(member)
    for address in ("computers/", ""):
        text = client.get(f"/w/lab/runs/{run.number}/{address}").content.decode()
        assert one.computer.label in text
        assert "Prefix: Task 1" in text
    assert "step 1 of 2" in client.get(f"/w/lab/runs/{run.number}/computers/").content.decode()


def test_live_forks_say_that_they_began_like_their_parent(workspace, member, client_for):
    run = forking(workspace, finished=3)
    run.attempts.update(fork_method=Attempt.ForkMethod.LIVE)
    client, began = client_for(member), "began like their parent"
    assert began not in client.get(page(run)).content.decode()
    for attempt, differences in zip(run.attempts.order_by("number"), ([], [], ["files: …"]), strict=True):
        append(run, Forked(state="prefix-1", differences=differences, seconds=0.42), attempt=attempt)
    text = client.get(page(run)).content.decode()
    assert f"2 of 3 live forks {began}" in text
    assert text.count("compared in 0.4 s") == 2
    own = "It began with its parent&#x27;s files, programs and screen", "It began with its parent's files"
    pages = [client.get(f"/w/lab/runs/{run.number}/attempts/{number}/").content.decode() for number in (1, 3)]
    assert [any(words in shown for words in own) for shown in pages] == [True, False]
