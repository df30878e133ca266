from __future__ import annotations

import re

import pytest

from runs.models import Run

from .stage import a_run, end, play

pytestmark = pytest.mark.django_db
PAGE = "/w/lab/runs/"


def numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r'<span class="faint">#(\d+)</span>', text)]


def test_an_empty_workspace_says_what_to_do_next(workspace, member, client_for):
    text = client_for(member).get(PAGE).content.decode()
    assert "No runs in this workspace yet" in text
    assert "No worker is connected yet" in text


def test_runs_are_listed_newest_first_and_a_scripted_test_has_its_frame_and_no_rate(
    workspace, member, client_for
):
    scripted, evaluation = a_run(workspace), a_run(workspace, kind=Run.Kind.EVALUATION)
    play(scripted)
    play(evaluation)
    text = client_for(member).get(PAGE).content.decode()
    assert numbers(text) == [evaluation.number, scripted.number]
    rows = text[text.index("<tbody>") :].split("<tr>")
    assert "2 of 2 recipes passed" in rows[2]
    assert "kind script" in rows[2]
    assert "%" not in re.sub(r'="[^"]*"', "", rows[2])
    assert "100.0%" in rows[1]
    assert "2 valid" in rows[1]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("?kind=evaluation", [2]),
        ("?status=active", [2, 1]),
        ("?status=completed", [3]),
        ("?stop=all_tasks_done", [3]),
        ("?q=smoke", [3, 1]),
        ("?q=%232", [2]),
        ("?who=me", [2]),
        ("?sort=started", [1, 2, 3]),
        ("?sort=name", [2, 1, 3]),
        ("?sort=-attempts", [2, 3, 1]),
        ("?sort=nonsense&kind=nonsense", [3, 2, 1]),
        ("?before=2~2", [1]),
        ("?before=nonsense", [3, 2, 1]),
    ],
)
def test_the_list_filters_and_sorts(query, found, workspace, member, client_for):
    a_run(workspace, name="smoke")
    a_run(workspace, name="office", kind=Run.Kind.EVALUATION, tasks=3, creator=member)
    end(a_run(workspace, name="smoke"))
    assert numbers(client_for(member).get(PAGE + query).content.decode()) == found


@pytest.mark.parametrize("sort", ["-started", "name", "-cost", "attempts"])
def test_pages_follow_by_key_without_a_gap_in_every_order(sort, workspace, member, client_for):
    for index in range(60):
        a_run(workspace, name=f"run {index % 7}")
    client = client_for(member)
    seen: list[int] = []
    at = f"?sort={sort}"
    while at:
        text = client.get(PAGE + at).content.decode()
        seen += numbers(text)
        older = re.search(r'href="(\?[^"]*)" rel="next"', text)
        newer = re.search(r'href="(\?[^"]*)" rel="prev"', text)
        if newer and len(seen) > 25:
            back = client.get(PAGE + newer.group(1).replace("&amp;", "&")).content.decode()
            page = len(numbers(text))
            assert numbers(back) == seen[-page - 25 : -page]
        at = older.group(1).replace("&amp;", "&") if older else ""
    assert sorted(seen) == list(range(1, 61))
    assert len(seen) == 60


def test_one_more_run_costs_no_more_questions(workspace, member, client_for, django_assert_max_num_queries):
    for _ in range(12):
        play(a_run(workspace, kind=Run.Kind.EVALUATION))
    client = client_for(member)
    client.get(PAGE)
    with django_assert_max_num_queries(14):
        client.get(PAGE)


def test_a_wrong_method_is_refused(workspace, member, client_for):
    assert client_for(member).post(PAGE).status_code == 405


def test_an_outsider_gets_404(workspace, outsider, other_workspace, client_for):
    assert client_for(outsider).get(PAGE).status_code == 404
