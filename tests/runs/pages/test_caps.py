from __future__ import annotations

import pytest

from runs import scoring
from runs.models import Run

from .stage import a_run, end, play

pytestmark = pytest.mark.django_db


def page(run: Run, tab: str = "") -> str:
    return f"/w/lab/runs/{run.number}/{tab}"


def test_the_form_changes_the_caps_and_goes_back_to_the_run(workspace, owner, client_for):
    run = a_run(workspace)
    client = client_for(owner)
    assert "Spend cap" in client.get(page(run, "caps/")).content.decode()
    reply = client.post(page(run, "caps/"), {"spend_cap_usd": "$1,000.50", "time_cap_minutes": "1,200"})
    assert reply.url == page(run)
    run = Run.objects.select_related("budget").get(pk=run.pk)
    assert str(scoring.caps(run)["spend_cap_usd"]) == "1000.500000"
    assert run.time_cap_minutes == 1200
    text = client.get(page(run)).content.decode()
    assert "Spend cap raised from $0.50 to $1,000.50, time cap raised from 30 to 1,200 min" in text
    settings = client.get(page(run, "configuration/")).content.decode()
    assert "asked $0.50" in settings
    assert "asked 30" in settings


def test_an_empty_field_leaves_its_cap(workspace, owner, client_for):
    run = a_run(workspace)
    client_for(owner).post(page(run, "caps/"), {"spend_cap_usd": "", "time_cap_minutes": "45"})
    run.refresh_from_db()
    assert (run.time_cap_minutes, str(run.budget.cap)) == (45, "0.500000")


@pytest.mark.parametrize("typed", ["0", "-1", "x", "0.501", "9" * 30, "²"])
def test_what_cannot_be_is_said_beside_its_field(typed, workspace, owner, client_for):
    run = a_run(workspace)
    reply = client_for(owner).post(page(run, "caps/"), {"spend_cap_usd": typed, "time_cap_minutes": typed})
    assert reply.status_code == 422
    text = reply.content.decode()
    assert 'id="e-spend_cap_usd"' in text
    assert 'id="e-time_cap_minutes"' in text
    assert f'value="{typed}"' in text


def test_a_member_sees_no_form_for_the_run_of_another(workspace, owner, member, client_for):
    run = a_run(workspace, creator=owner)
    client = client_for(member)
    assert "Change caps" not in client.get(page(run)).content.decode()
    assert client.get(page(run, "caps/")).status_code == 403
    assert client.post(page(run, "caps/"), {"time_cap_minutes": "45"}).status_code == 403


def test_a_run_that_has_ended_says_so(workspace, owner, client_for):
    run = a_run(workspace)
    play(run)
    end(run)
    client = client_for(owner)
    assert "It has ended" in client.get(page(run, "caps/")).content.decode()
    client.post(page(run, "caps/"), {"time_cap_minutes": "45"})
    run.refresh_from_db()
    assert run.time_cap_minutes == 30


def test_an_outsider_finds_no_page(workspace, outsider, client_for):
    assert client_for(outsider).get(page(a_run(workspace), "caps/")).status_code == 404
