from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.actor import Actor
from runs.actions.stop import cancel_run
from runs.models import Run, RunSweep
from tests.factories import AttemptFactory, EventFactory, recount

from .stage import a_run, end, log, play, with_steps

pytestmark = pytest.mark.django_db


def page(run: Run) -> str:
    return f"/w/lab/runs/{run.number}/"


def test_a_finished_scripted_test_says_how_many_recipes_verified_and_no_rate(workspace, member, client_for):
    run = a_run(workspace, tasks=3)
    play(run)
    end(run)
    text = client_for(member).get(page(run)).content.decode()
    assert "of 3 recipes passed" in text
    assert "Every attempt finished" in text
    assert "all_tasks_done" in text
    assert "95% interval" not in text
    assert "honest" not in text


def test_what_has_no_verdict_is_no_failed_recipe(workspace, member, client_for):
    run = a_run(workspace, tasks=3)
    pages = client_for(member)
    assert "passed, no verdict yet" in pages.get(page(run)).content.decode()
    play(run, finished=2)
    AttemptFactory(run=run, faulty=True)
    recount(run)
    for address in (page(run), "/w/lab/", "/w/lab/runs/"):
        assert "of 2 with a verdict passed" in pages.get(address).content.decode(), address


def test_the_counts_are_written_as_a_sum(workspace, member, client_for):
    run = a_run(workspace, tasks=3)
    play(run, finished=2)
    text = client_for(member).get(page(run)).content.decode()
    assert "<b>3</b> planned <i>=</i> <b>2</b> done <i>+</i> <b>0</b> error" in text
    assert "<b>1</b> pending" in text


def test_an_evaluation_shows_its_rate_with_n_interval_and_coverage(workspace, member, client_for):
    run = a_run(workspace, tasks=2, copies=5, kind=Run.Kind.EVALUATION)
    play(run, finished=7)
    text = client_for(member).get(page(run)).content.decode()
    assert "7 of 7 valid" in text
    assert "95% interval" in text
    assert "Coverage" in text
    assert "Worst case" in text


def test_reasons_without_a_verdict_are_listed_in_words_and_code(workspace, member, client_for):
    run = a_run(workspace)
    AttemptFactory(run=run, faulty=True)
    recount(run)
    text = client_for(member).get(page(run)).content.decode()
    assert "Desktop was lost" in text
    assert "desktop_lost" in text


@pytest.mark.parametrize("status", ["queued", "preparing", "recovering", "verifying", "cancelling"])
def test_each_status_has_its_page(status, workspace, member, client_for):
    run = a_run(workspace, status=status)
    reply = client_for(member).get(page(run))
    assert reply.status_code == 200
    assert run.get_status_display() in reply.content.decode()


def test_each_event_kind_has_a_sentence(workspace, owner, client_for):
    run = a_run(workspace)
    log(run, owner)
    text = client_for(owner).get(page(run)).content.decode()
    assert "c-0001 is gone after" in text


@pytest.mark.parametrize(("planned", "form"), [(600, "cells"), (610, "waffle bars")])
def test_above_600_attempts_bars_replace_cells(planned, form, workspace, member, client_for):
    run = a_run(workspace, tasks=10, rounds=planned // 10)
    play(run, finished=30)
    text = client_for(member).get(page(run)).content.decode()
    assert f'class="{form}' in text


def test_the_page_asks_the_same_number_of_questions_at_20_and_2000_attempts(workspace, owner, client_for):
    client = client_for(owner)
    asked = []
    for rounds in (1, 100):
        run = a_run(workspace, tasks=20, rounds=rounds)
        play(run, finished=20 * rounds - 5)
        log(run, owner)
        client.get(page(run))
        with CaptureQueriesContext(connection) as queries:
            assert client.get(page(run)).status_code == 200
        asked.append(len(queries))
    assert asked[0] == asked[1]
    assert asked[0] <= 22


def test_a_script_gets_the_parts_without_the_shell(workspace, member, client_for):
    run = a_run(workspace)
    reply = client_for(member).get(page(run), headers={"HX-Request": "true"})
    text = reply.content.decode()
    assert '<main id="main">' in text
    assert 'class="rail"' not in text
    assert "HX-Request" in reply["Vary"]


def test_a_wrong_method_is_refused(workspace, member, client_for):
    assert client_for(member).post(page(a_run(workspace))).status_code == 405


def test_an_outsider_gets_404(workspace, outsider, other_workspace, client_for):
    run = a_run(workspace)
    assert client_for(outsider).get(page(run)).status_code == 404


def test_whoever_is_not_signed_in_is_sent_to_sign_in(workspace, client):
    reply = client.get(page(a_run(workspace)))
    assert reply.status_code == 302
    assert reply["Location"].startswith("/accounts/login/")


def test_another_workspaces_run_number_is_404(workspace, other_workspace, member, client_for):
    run = a_run(other_workspace)
    assert client_for(member).get(page(run)).status_code == 404


def test_the_cancel_button_is_for_creator_admin_and_owner(workspace, owner, admin, member, client_for):
    run = a_run(workspace, creator=owner)
    shown = {
        who: "Cancel run" in client_for(who).get(page(run)).content.decode() for who in (owner, admin, member)
    }
    assert shown == {owner: True, admin: True, member: False}


def test_nothing_on_the_page_breaks_the_content_security_policy(workspace, member, client_for):
    run = a_run(workspace)
    play(run, finished=1)
    text = client_for(member).get(page(run)).content.decode()
    assert " style=" not in text
    assert "<style" not in text
    assert " onclick=" not in text


def test_a_large_run_is_never_counted_from_its_attempts(workspace, member, client_for):
    run = a_run(workspace, tasks=10, rounds=61)
    play(run, finished=30)
    with CaptureQueriesContext(connection) as queries:
        page_shown = client_for(member).get(page(run)).content.decode()
    assert not any("FILTER" in query["sql"] for query in queries if "runs_attempt" in query["sql"])
    assert "610</b> planned" in page_shown


def test_a_verdict_whose_desktop_is_still_going_away_hides_no_attempt_without_one(
    workspace, member, client_for
):
    run = a_run(workspace)
    AttemptFactory(run=run, faulty=True)
    recount(run)
    Run.objects.filter(pk=run.pk).update(valid=1, success=1, verifying=1)
    assert "1 of 1 finished" in client_for(member).get(page(run)).content.decode()


def test_a_receipt_that_waits_for_a_sweep_is_looked_at_again_by_itself(workspace, member, client_for):
    run = a_run(workspace)
    attempt = with_steps(play(run)[0])
    run = end(run)
    sweep = RunSweep.objects.create(run=run, worker=attempt.computer.worker, after=run.ended_at)
    text = client_for(member).get(page(run)).content.decode()
    assert "data-wait" in text
    assert "–, not swept yet" in text
    sweep.swept_at, sweep.left = timezone.now(), 0
    sweep.save()
    text = client_for(member).get(page(run)).content.decode()
    assert "data-wait" not in text


def test_a_cancelled_run_says_who_cancelled_it(workspace, owner, client_for):
    run = a_run(workspace, status=Run.Status.QUEUED)
    cancel_run(run, actor=Actor.person(owner))
    assert f"{owner} cancelled it." in client_for(owner).get(page(run)).content.decode()


def test_what_happens_by_itself_names_nobody(workspace, owner, client_for):
    run = a_run(workspace)
    EventFactory(
        run=run,
        kind="run_stopping",
        data={"reason": "all_tasks_done", "actor": "the supervisor", "detail": ""},
    )
    text = client_for(owner).get(page(run)).content.decode()
    assert "Stopping: every attempt finished<" in text
    assert "supervisor" not in text


def test_rounds_that_a_cancelled_run_never_began_are_drawn_as_cancelled(workspace, member, client_for):
    run = end(
        a_run(workspace, tasks=1, rounds=3), status=Run.Status.CANCELLED, stop_reason="cancelled_by_user"
    )
    text = client_for(member).get(page(run)).content.decode()
    cells = text.split('class="cells"')[1].split("</span></span>")[0]
    assert cells.count("#cancelled") == 3
    assert "#queued" not in cells
