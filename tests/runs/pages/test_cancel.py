from __future__ import annotations

import pytest

from runs.models import Run

from .stage import a_run, end

pytestmark = pytest.mark.django_db


def cancel(run: Run) -> str:
    return f"/w/lab/runs/{run.number}/cancel/"


def test_its_creator_cancels_a_run(workspace, member, client_for):
    run = a_run(workspace, creator=member)
    reply = client_for(member).post(cancel(run))
    assert reply.status_code == 302
    run.refresh_from_db()
    assert run.status == Run.Status.CANCELLED
    assert run.stop_reason == Run.StopReason.CANCELLED_BY_USER


def test_an_admin_cancels_anybodys_run(workspace, admin, owner, client_for):
    run = a_run(workspace, creator=owner)
    client_for(admin).post(cancel(run))
    run.refresh_from_db()
    assert run.status == Run.Status.CANCELLED


def test_another_member_is_told_why_not_and_nothing_changes(workspace, owner, member, client_for):
    run = a_run(workspace, creator=owner)
    reply = client_for(member).post(cancel(run))
    assert reply.status_code == 403
    assert "not cancel it" in reply.content.decode()
    run.refresh_from_db()
    assert run.status == Run.Status.RUNNING


def test_without_scripts_a_page_asks_first_and_the_safe_button_comes_first(workspace, owner, client_for):
    run = a_run(workspace, creator=owner)
    text = client_for(owner).get(cancel(run)).content.decode()
    question = text[text.index("Cancel run #") :]
    assert question.index("Keep it running") < question.index('type="submit"')


def test_a_run_that_has_ended_is_left_alone(workspace, owner, client_for):
    run = end(a_run(workspace, creator=owner))
    reply = client_for(owner).post(cancel(run), follow=True)
    assert "has already ended" in reply.content.decode()


def test_a_wrong_method_is_refused(workspace, owner, client_for):
    assert client_for(owner).put(cancel(a_run(workspace))).status_code == 405


def test_an_outsider_gets_404(workspace, outsider, other_workspace, client_for):
    run = a_run(workspace)
    assert client_for(outsider).post(cancel(run)).status_code == 404


def test_what_has_its_verdict_already_is_not_said_to_be_cancelled(workspace, owner, client_for):
    run = a_run(workspace, tasks=4, creator=owner)
    Run.objects.filter(pk=run.pk).update(running=1, verifying=2, valid=1, success=1)
    text = client_for(owner).get(cancel(run)).content.decode()
    assert "1 attempt not begun and 2 playing will count as cancelled" in text
    assert "also the 1 whose desktop is just going away" in text
