from __future__ import annotations

import json

import pytest

from runs.models import Attempt, Task
from runs.pages.attempt import finding
from tests.factories import AttemptFactory, recount, sha256

from .stage import a_run, play, with_steps

pytestmark = pytest.mark.django_db

ACTIONS = [
    {"action": "click", "x": 412, "y": 188, "note": "open the menu"},
    {"action": "drag", "x": 1, "y": 2, "to_x": 300, "to_y": 400},
    {"action": "scroll", "x": 5, "y": 6, "dy": 3},
    {"action": "type", "text": "three <b>"},
    {"action": "key", "keys": ["ctrl", "s"]},
    {"action": "wait", "seconds": 5, "window": "Files"},
    {"action": "done"},
]


def page(attempt: Attempt, query: str = "") -> str:
    return f"/w/lab/runs/{attempt.run.number}/attempts/{attempt.number}/{query}"


def judged(workspace, reward: float = 0.0, **evidence) -> Attempt:
    run = a_run(workspace)
    attempt = AttemptFactory(run=run, valid=True, reward=reward)
    verdict = {
        "reward": reward,
        "checker": "osworld@v1",
        "checker_digest": f"sha256:{sha256('checker')}",
        "seconds": 0.21,
        "screenshot": "",
        "evidence": [
            {
                "label": "Folder name",
                "metric": "exact_match",
                "found": "old <name>",
                "expected": "new",
                "reward": reward,
                "artefacts": {},
                **evidence,
            }
        ],
    }
    with_steps(attempt, *ACTIONS, verdict=verdict)
    recount(run)
    return attempt


def test_a_fail_says_what_was_found_and_what_was_expected(workspace, member, client_for):
    text = client_for(member).get(page(judged(workspace))).content.decode()
    assert "Why it failed" in text
    assert "old &lt;name&gt;" in text
    assert "Differs" in text
    assert "three &lt;b&gt;" in text


@pytest.mark.parametrize(("actions", "cut"), [(7, False), (12, True)])
def test_the_step_limit_is_named_where_it_ended_the_attempt(actions, cut, workspace, member, client_for):
    attempt = judged(workspace)
    attempt.steps = attempt.run.spec["max_steps"] = 7
    attempt.save(update_fields=["steps"])
    attempt.run.save(update_fields=["spec"])
    Task.objects.filter(pk=attempt.task_id).update(recipe=[{"action": "wait", "seconds": 1}] * actions)
    text = client_for(member).get(page(attempt)).content.decode()
    assert (f"The step limit ended it after 7 of the recipe’s {actions} actions." in text) is cut


def test_a_file_that_was_read_is_named_and_leads_to_what_was_in_it(workspace, member, client_for):
    attempt = judged(workspace, found={"file": "talk.pptx"}, artefacts={"talk.pptx": "a" * 64})
    text = client_for(member).get(page(attempt)).content.decode()
    assert "found <code>the file talk.pptx</code>, expected <code>new</code>" in text
    assert f'<a href="/w/lab/blobs/{"a" * 64}">the file talk.pptx</a>' in text


def test_a_long_value_is_cut_in_its_line_and_there_as_a_whole(workspace, member, client_for):
    wanted = {"rows": [[number] for number in range(99)]}
    text = client_for(member).get(page(judged(workspace, expected=wanted))).content.decode()
    assert "[97]" not in text.split("Verifier evidence")[0]
    assert "<summary" in text.split("Verifier evidence")[1]
    assert "98\n" in text.split("Verifier evidence")[1]


def test_what_was_expected_of_a_file_that_is_not_there_comes_from_the_task(workspace, member, client_for):
    attempt = judged(workspace, found=None, expected=None, note="there is no file /home/user/count.txt")
    evaluator = {
        "func": "exact_match",
        "result": {"type": "vm_file", "path": "/home/user/count.txt", "dest": "count.txt"},
        "expected": {"type": "rule", "rules": {"expected": "7"}},
    }
    attempt.task.document = {**attempt.task.document, "evaluator": evaluator}
    attempt.task.save()
    text = client_for(member).get(page(attempt)).content.decode()
    assert (
        "found nothing (there is no file /home/user/count.txt), expected <code>&quot;7&quot;</code>" in text
    )


def test_each_step_has_an_address_and_its_place_in_the_replay(workspace, member, client_for):
    attempt = judged(workspace, 1.0)
    text = client_for(member).get(page(attempt, "?step=2")).content.decode()
    assert '<g data-mark="2">' in text
    assert '<g data-mark="1" visibility="hidden">' in text
    assert "Screen before step 2: drag 1, 2 to 300, 400" in text
    assert "?step=1#replay" in text
    assert "?step=3#replay" in text


def test_without_a_step_it_shows_the_screen_that_was_left_when_it_said_done(workspace, member, client_for):
    assert "Screen before step 7: done" in client_for(member).get(page(judged(workspace))).content.decode()


def test_without_a_step_it_shows_the_end_of_one_that_never_said_done(workspace, member, client_for):
    attempt = with_steps(AttemptFactory(run=a_run(workspace), valid=True, reward=0.0), *ACTIONS[:-1])
    assert "Screen at the end" in client_for(member).get(page(attempt)).content.decode()


@pytest.mark.parametrize("step", ["0", "99999", "-1", "x", "9" * 40])
def test_a_step_that_is_not_there_still_shows_a_page(step, workspace, member, client_for):
    assert client_for(member).get(page(judged(workspace), f"?step={step}")).status_code == 200


def test_a_fault_of_ours_is_named_and_every_try_kept(workspace, member, client_for):
    run = a_run(workspace)
    attempt = AttemptFactory(run=run, faulty=True)
    for _ in range(3):
        with_steps(attempt, ok=False, invalid_reasons=["desktop_lost"], reward=None)
    recount(run)
    text = client_for(member).get(page(attempt)).content.decode()
    assert "That was our fault" in text
    assert text.count("Desktop was lost") >= 4
    assert "3, every one kept" in text


@pytest.mark.parametrize(("reason", "ours"), [("desktop_lost", True), ("human_intervened", False)])
def test_only_a_fault_of_ours_is_called_so_among_the_tries(workspace, member, client_for, reason, ours):
    run = a_run(workspace)
    attempt = AttemptFactory(run=run)
    with_steps(attempt, ok=False, invalid_reasons=[reason], reward=None)
    with_steps(attempt)
    recount(run)
    text = client_for(member).get(page(attempt)).content.decode()
    assert ("A desktop that breaks is our fault" in text) is ours


@pytest.mark.parametrize("status", ["queued", "running", "verifying", "cancelled"])
def test_an_attempt_without_steps_has_its_page(status, workspace, member, client_for):
    attempt = AttemptFactory(run=a_run(workspace), status=status)
    assert client_for(member).get(page(attempt)).status_code == 200


def test_neighbours_are_linked(workspace, member, client_for):
    run = a_run(workspace, tasks=3)
    attempts = play(run)
    text = client_for(member).get(page(attempts[1])).content.decode()
    assert f'{page(attempts[0])}" rel="prev"' in text
    assert f'{page(attempts[2])}" rel="next"' in text


def test_the_card_of_a_cell_names_all_three_columns(workspace, member, client_for):
    attempt = judged(workspace, 1.0)
    text = client_for(member).get(page(attempt) + "card/").content.decode()
    for word in ("Done", "Valid", "Success", "Round 1, copy 1"):
        assert word in text


def test_an_attempt_that_is_not_there_is_404(workspace, member, client_for):
    run = a_run(workspace)
    assert client_for(member).get(f"/w/lab/runs/{run.number}/attempts/77/").status_code == 404


def test_a_wrong_method_is_refused(workspace, member, client_for):
    assert client_for(member).post(page(judged(workspace))).status_code == 405


def test_an_outsider_gets_404(workspace, outsider, other_workspace, client_for):
    attempt = judged(workspace)
    assert client_for(outsider).get(page(attempt)).status_code == 404
    assert client_for(outsider).get(page(attempt) + "card/").status_code == 404


def test_a_folder_that_was_listed_and_rules_are_read_without_braces():
    folder = {
        "type": "directory",
        "name": "Documents",
        "children": [
            {"type": "file", "name": "todo.txt"},
            {
                "type": "directory",
                "name": "Invoices",
                "children": [{"type": "directory", "name": "2025", "children": []}],
            },
        ],
    }
    one = finding({"found": folder, "expected": {"only": True, "include": ["todo.txt", "Invoices/"]}})
    assert one.found.text == "Documents with todo.txt, Invoices/2025/"
    assert one.expected.text == "only: yes; include: todo.txt, Invoices/"
    assert json.loads(one.found.whole) == folder  # all of it is a press away
