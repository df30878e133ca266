from __future__ import annotations

import re

import pytest
from django.utils import timezone

from runs.models import Run
from tests.factories import AttemptFactory, recount

from .stage import a_run, play

pytestmark = pytest.mark.django_db


def page(run: Run, query: str = "") -> str:
    return f"/w/lab/runs/{run.number}/rollouts/{query}"


def numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r'<td class="num faint off">(\d+)</td>', text)]


def test_what_has_begun_is_listed_newest_first(workspace, member, client_for):
    run = a_run(workspace, tasks=4)
    play(run, finished=3)
    assert numbers(client_for(member).get(page(run)).content.decode()) == [3, 2, 1]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?status=all", [5, 4, 3, 2, 1]),
        ("?status=queued", [5]),
        ("?status=error", [4]),
        ("?verifier=valid", [3, 2, 1]),
        ("?outcome=success", [2, 1]),
        ("?outcome=fail", [3]),
        ("?outcome=none", [4]),
        ("?reason=desktop_lost", [4]),
        ("?tries=more", [4]),
        ("?q=2", [2]),
        ("?task=task-1&outcome=success", [2, 1]),
        ("?status=nonsense&verifier=nonsense", [5, 4, 3, 2, 1]),
    ],
)
def test_each_column_filters(query, found, workspace, member, client_for):
    run = a_run(workspace, tasks=5)
    AttemptFactory.create_batch(2, run=run, valid=True)
    AttemptFactory(run=run, valid=True, reward=0.0)
    AttemptFactory(run=run, faulty=True)
    AttemptFactory(run=run)
    recount(run)
    assert numbers(client_for(member).get(page(run, query)).content.decode()) == found


def test_pages_follow_by_key_without_a_gap(workspace, member, client_for):
    run = a_run(workspace, tasks=2, rounds=60)
    play(run)
    client = client_for(member)
    seen: list[int] = []
    at = ""
    while True:
        text = client.get(page(run, at)).content.decode()
        seen += numbers(text)
        older = re.search(r'href="(\?[^"]*)" rel="next"', text)
        if older is None:
            break
        at = older.group(1).replace("&amp;", "&")
    assert seen == list(range(120, 0, -1))


def test_no_match_says_how_to_get_out(workspace, member, client_for):
    run = a_run(workspace)
    play(run)
    text = client_for(member).get(page(run, "?verifier=invalid")).content.decode()
    assert "No attempt is like that" in text
    assert "Clear the filters" in text


def test_a_wrong_method_is_refused(workspace, member, client_for):
    assert client_for(member).post(page(a_run(workspace))).status_code == 405


def test_an_outsider_gets_404(workspace, outsider, other_workspace, client_for):
    run = a_run(workspace)
    assert client_for(outsider).get(page(run)).status_code == 404


def test_a_row_on_a_phone_has_its_number(workspace, member, client_for):
    run = a_run(workspace)
    play(run)
    text = client_for(member).get(f"/w/lab/runs/{run.number}/rollouts/").content.decode()
    assert '<span class="num faint phone">2 </span>' in text


def test_what_was_cancelled_before_it_began_has_not_begun(workspace, member, client_for):
    run = a_run(workspace, tasks=3)
    AttemptFactory(run=run, valid=True)
    AttemptFactory(run=run, status="cancelled", started_at=timezone.now(), ended_at=timezone.now(), tries=1)
    AttemptFactory(run=run, status="cancelled", ended_at=timezone.now())
    recount(run)
    client = client_for(member)
    assert numbers(client.get(page(run)).content.decode()) == [2, 1]
    assert numbers(client.get(page(run, "?status=cancelled")).content.decode()) == [3, 2]


def test_every_filter_says_in_words_what_it_leaves(workspace, member, client_for):
    run = a_run(workspace, tasks=2)
    play(run, finished=1)
    assert 'No outcome <span class="n">1</span>' in client_for(member).get(page(run)).content.decode()


def test_one_page_of_attempts_has_no_buttons_to_others(workspace, member, client_for):
    run = a_run(workspace)
    play(run)
    assert ">Older" not in client_for(member).get(page(run)).content.decode()
