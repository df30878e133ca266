from __future__ import annotations

import pytest

from runs.models import Run
from tests.factories import TemplateVersionFactory, WorkerFactory, sha256
from tests.runs.actions.conftest import new_run, worker
from tests.runs.api.test_again import broken

__all__ = ["broken", "new_run", "worker"]  # fixtures
pytestmark = pytest.mark.django_db


def page(run: Run, tab: str = "") -> str:
    return f"/w/lab/runs/{run.number}/{tab}"


def test_the_page_asks_and_then_reopens_the_run(broken, owner, client_for):
    client = client_for(owner)
    assert page(broken, "retry/") in client.get(page(broken)).content.decode()
    assert "Try 1 attempt again?" in client.get(page(broken, "retry/")).content.decode()
    reply = client.post(page(broken, "retry/"), {"spend_cap_usd": "0.50", "time_cap_minutes": "30"})
    assert reply.url == page(broken)
    broken.refresh_from_db()
    assert (broken.status, broken.reopened) == ("queued", 1)
    text = client.get(page(broken)).content.decode()
    assert "Reopened by Olga Owner to try 1 attempt again; it had ended: every attempt finished" in text


def test_a_cap_that_is_used_up_is_said_beside_its_field(broken, owner, client_for):
    budget = Run.objects.select_related("budget").get(pk=broken.pk).budget
    budget.spent = budget.cap
    budget.save()
    reply = client_for(owner).post(page(broken, "retry/"), {"time_cap_minutes": "30"})
    assert reply.status_code == 422
    assert "Its spend cap of $0.50 is used up" in reply.content.decode()


def test_a_member_may_not_and_an_outsider_finds_nothing(broken, member, outsider, client_for):
    assert client_for(member).post(page(broken, "retry/")).status_code == 403
    assert "retry/" not in client_for(member).get(page(broken)).content.decode()
    assert client_for(outsider).get(page(broken, "retry/")).status_code == 404


def test_an_old_address_of_a_rerun_leads_to_the_run(broken, owner, client_for):
    assert client_for(owner).get(page(broken, "rerun/")).url == page(broken)


def test_a_rerun_whose_image_no_worker_has_is_told_of_the_newer_one(
    broken, worker, workspace, owner, client_for
):
    client = client_for(owner)
    assert "environment" not in client.post(page(broken, "rerun/")).url
    type(worker.worker).objects.update(connected=False)
    newer = TemplateVersionFactory(workspace=workspace, version=2)
    image = {"name": "basic", "version": 2, "digest": f"sha256:{sha256('basic@2')}"}
    WorkerFactory(workspace=workspace, images=[image])
    reply = client.post(page(broken, "rerun/"), follow=True)
    assert reply.redirect_chain[-1][0].endswith("/runs/new/environment/")
    assert f"No connected worker has basic@1 now; one has {newer}" in reply.content.decode()
