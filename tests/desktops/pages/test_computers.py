"""The pages of computers that people open."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from console.models import User, Workspace
from desktops.models import Ask, Hold, TemplateVersion, Worker, WorkerRate
from tests.desktops.hands import answer, end, opened, start
from tests.factories import HoldFactory, StateFactory, TemplateVersionFactory, WorkerFactory, sha256
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db
ClientFor = Callable[[User], Client]
FORM = {"start": "template:basic@1", "idle_minutes": "5", "max_minutes": "30", "spend_cap_usd": "0.25"}


@pytest.fixture
def version(workspace: Workspace) -> TemplateVersion:
    found: TemplateVersion = TemplateVersionFactory(workspace=workspace)
    return found


@pytest.fixture
def paper(workspace: Workspace, owner: User) -> PaperWorker:
    return PaperWorker(workspace, owner)


def text(client: Client, path: str, status: int = 200) -> str:
    reply = client.get(f"/w/lab/{path}")
    assert reply.status_code == status
    return reply.content.decode()


def page_of(hold: Hold) -> str:
    return f"computers/{hold.pk}/"


def test_with_none_it_says_what_they_are_for(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    page = text(client_for(member), "computers/")
    assert "No computer is open" in page
    assert "/w/lab/computers/new/" in page


def test_with_nothing_to_open_it_says_what_to_do(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    assert "There is nothing to open yet" in text(client_for(member), "computers/new/")


def test_one_is_opened_by_its_form(client_for: ClientFor, member: User, version: TemplateVersion) -> None:
    client = client_for(member)
    page = text(client, "computers/new/?template=basic@1")
    assert 'value="template:basic@1" selected' in page
    assert "$0.06 an hour (no worker has it now)" in page
    reply = client.post("/w/lab/computers/new/", FORM)
    hold = Hold.objects.get()
    assert reply["Location"] == f"/w/lab/computers/{hold.pk}/"
    assert (hold.idle_minutes, hold.max_minutes, hold.budget.cap) == (5, 30, Decimal("0.25"))
    assert (hold.opened_by, hold.opened_via) == (member, "Mia Member")
    assert "It waits for a worker" in text(client, page_of(hold))


def test_the_form_has_what_an_hour_costs_where_it_is(
    client_for: ClientFor, member: User, workspace: Workspace, version: TemplateVersion
) -> None:
    WorkerFactory(workspace=workspace)
    dear = WorkerFactory(workspace=workspace)
    WorkerRate.objects.create(template=version.template, worker=dear, rate_usd_per_hour="0.09")
    assert "$0.06 to $0.09 an hour<" in text(client_for(member), "computers/new/")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": ""}, "Name a template or a saved desktop."),
        ({"start": "template:basic@9"}, "This workspace has no such template version."),
        ({"start": f"state:{uuid.uuid4()}"}, "This workspace has no such saved desktop."),
        ({"idle_minutes": "soon"}, "Must be a whole number."),
        ({"max_minutes": "0"}, "Must be between 1 and 1,440."),
        ({"spend_cap_usd": ""}, "Must be an amount in dollars"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field_and_what_was_typed_stays(
    client_for: ClientFor, member: User, version: TemplateVersion, change: dict[str, str], message: str
) -> None:
    reply = client_for(member).post("/w/lab/computers/new/", {**FORM, "idle_minutes": "7", **change})
    assert reply.status_code == 422
    page = reply.content.decode()
    assert message in page
    assert ('value="7"' in page) == ("idle_minutes" not in change)
    assert not Hold.objects.exists()


def test_a_saved_desktop_can_be_opened_from_its_own_page(
    client_for: ClientFor, member: User, paper: PaperWorker, version: TemplateVersion
) -> None:
    state = StateFactory(worker=paper.worker, origin="saved", label="Half done", template_version=version)
    StateFactory(worker=paper.worker, origin="warm", label="Ready one", template_version=version)
    client = client_for(member)
    assert f"/w/lab/computers/new/?state={state.pk}" in text(client, f"states/{state.pk}/")
    page = text(client, f"computers/new/?state={state.pk}")
    assert f'value="state:{state.pk}" selected' in page
    assert "Ready one" not in page
    client.post("/w/lab/computers/new/", {**FORM, "start": f"state:{state.pk}"})
    assert Hold.objects.get().state == state


def test_its_page_follows_it_from_start_to_end(
    client_for: ClientFor, member: User, workspace: Workspace, paper: PaperWorker
) -> None:
    client = client_for(member)
    hold = opened(workspace, member)
    computer = start(paper, hold)
    page = text(client, page_of(hold))
    assert "c-0001" in page
    for word in ("Save…", "Save as template version…", "Close…", "an hour", "of $0.50"):
        assert word in page
    client.post(f"/w/lab/computers/{hold.pk}/close/")
    page = text(client, page_of(hold))
    assert "is removing the desktop" in page
    assert "Save…" not in page
    end(paper, hold, computer)
    page = text(client, page_of(hold))
    assert "Closed by Mia Member." in page
    assert "data-poll" not in page
    assert "Closed by Mia Member." in text(client, "computers/")


def test_a_failure_says_why(
    client_for: ClientFor, member: User, workspace: Workspace, paper: PaperWorker
) -> None:
    hold = opened(workspace, member)
    end(paper, hold, start(paper, hold), ["desktop_lost"], "It went away.")
    page = text(client_for(member), page_of(hold))
    assert "Desktop lost" in page
    assert "It went away." in page


def test_who_may_use_it_gets_tickets_to_watch_and_to_act(
    client_for: ClientFor, member: User, owner: User, workspace: Workspace, paper: PaperWorker
) -> None:
    hold = opened(workspace, member)
    mia, olga = client_for(member), client_for(owner)
    address = f"/w/lab/computers/{hold.pk}/"
    refused = mia.post(f"{address}view/")
    assert (refused.status_code, refused.json()["detail"]) == (409, "This computer has not started.")
    computer = start(paper, hold)
    assert "data-watch" in text(mia, page_of(hold))
    for client, what in ((mia, "view"), (mia, "drive"), (olga, "drive")):
        assert client.post(f"{address}{what}/").json()["socket"].startswith("/ws/live/")
    end(paper, hold, computer, ["desktop_lost"])
    assert "has ended" in mia.post(f"{address}drive/").json()["detail"]


def test_somebody_else_may_watch_and_not_act(
    client_for: ClientFor, member: User, owner: User, workspace: Workspace, paper: PaperWorker
) -> None:
    hold = opened(workspace, owner)
    start(paper, hold)
    client = client_for(member)
    assert client.post(f"/w/lab/computers/{hold.pk}/view/").status_code == 200
    assert client.post(f"/w/lab/computers/{hold.pk}/drive/").status_code == 403
    assert "Use it" not in text(client, page_of(hold))


def test_another_member_sees_it_and_may_do_nothing_with_it(
    client_for: ClientFor, member: User, owner: User, workspace: Workspace, paper: PaperWorker
) -> None:
    hold = opened(workspace, owner)
    start(paper, hold)
    client = client_for(member)
    assert "Close…" not in text(client, page_of(hold))
    for what in ("close", "save", "template"):
        assert client.get(f"/w/lab/computers/{hold.pk}/{what}/").status_code == 403
        assert client.post(f"/w/lab/computers/{hold.pk}/{what}/", {"name": "x"}).status_code == 403
    hold.refresh_from_db()
    assert (hold.status, hold.asks.count()) == ("ready", 0)


def test_it_is_saved_and_the_page_says_what_came_of_it(
    client_for: ClientFor, member: User, workspace: Workspace, paper: PaperWorker
) -> None:
    client = client_for(member)
    hold = opened(workspace, member)
    computer = start(paper, hold)
    client.post(f"/w/lab/computers/{hold.pk}/save/", {"label": "Half done"})
    ask = Ask.objects.get()
    assert "Being done" in text(client, page_of(hold))
    again = client.post(f"/w/lab/computers/{hold.pk}/save/", {"label": "Again"}, follow=True)
    assert "is being saved already" in again.content.decode()
    answer(paper, ask, computer)
    page = text(client, page_of(hold))
    assert f"/w/lab/states/{ask.state_id}/" in page
    assert "Half done" in page
    saved = text(client, f"states/{ask.state_id}/")
    assert f"/w/lab/computers/{hold.pk}/" in saved
    assert "Computer c-0001" in saved


def test_a_name_that_cannot_be_is_said_beside_it(
    client_for: ClientFor, member: User, workspace: Workspace, paper: PaperWorker
) -> None:
    hold = opened(workspace, member)
    start(paper, hold)
    reply = client_for(member).post(f"/w/lab/computers/{hold.pk}/template/", {"name": "no spaces"})
    assert reply.status_code == 422
    assert 'aria-invalid="true"' in reply.content.decode()
    assert not Ask.objects.exists()


def test_a_draft_is_made_published_and_can_be_opened(
    client_for: ClientFor, member: User, admin: User, workspace: Workspace, paper: PaperWorker
) -> None:
    mia, adam = client_for(member), client_for(admin)
    hold = opened(workspace, member)
    start(paper, hold)
    mia.post(f"/w/lab/computers/{hold.pk}/template/", {"name": "with-data", "title": "With data"})
    assert "its image is still being made" in text(adam, "templates/with-data/")
    answer(paper, Ask.objects.get())
    Worker.objects.update(
        images=[{"name": "with-data", "version": 1, "digest": f"sha256:{sha256('with-data@1')}"}]
    )
    page = text(adam, "templates/with-data/")
    for word in ("Publish", "Discard…", "Saved by", "Mia Member", "From a desktop of"):
        assert word in page
    assert "An admin or owner publishes it." in text(mia, "templates/with-data/")
    assert mia.post("/w/lab/templates/with-data/1/publish/").status_code == 403
    assert "Publish with-data@1?" in text(adam, "templates/with-data/1/publish/")
    assert "This cannot be undone" in text(adam, "templates/with-data/1/publish/")
    assert TemplateVersion.objects.get(template__name="with-data").status == "draft"
    assert "is published" in adam.post("/w/lab/templates/with-data/1/publish/", follow=True).content.decode()
    assert "Every member of Lab" in text(mia, "templates/with-data/")
    assert "with-data@1 — With data, $0.06 an hour<" in text(mia, "computers/new/")
    twice = adam.post("/w/lab/templates/with-data/1/discard/", follow=True).content.decode()
    assert "a published version stays as it is" in twice


def test_a_draft_is_discarded(
    client_for: ClientFor, member: User, admin: User, workspace: Workspace, paper: PaperWorker
) -> None:
    hold = opened(workspace, member)
    start(paper, hold)
    client_for(member).post(f"/w/lab/computers/{hold.pk}/template/", {"name": "mine"})
    answer(paper, Ask.objects.get())
    assert "Discard mine@1?" in text(client_for(admin), "templates/mine/1/discard/")
    page = client_for(admin).post("/w/lab/templates/mine/1/discard/", follow=True).content.decode()
    assert "The draft mine@1 is discarded." in page
    assert text(client_for(admin), "templates/mine/", 404)


@pytest.mark.parametrize("count", [1, 9])
def test_the_list_takes_the_same_queries_however_many_there_are(
    client_for: ClientFor, member: User, workspace: Workspace, count: int, django_assert_max_num_queries: Any
) -> None:
    for _ in range(count):
        HoldFactory(workspace=workspace, ready=True)
        HoldFactory(
            workspace=workspace, status="failed", stop_reason="no_worker", ended_at="2026-01-01T00:00Z"
        )
    client = client_for(member)
    client.get("/w/lab/computers/")
    with django_assert_max_num_queries(14):
        assert client.get("/w/lab/computers/").content.decode().count("/w/lab/computers/") >= 2 * count


def test_a_strangers_is_absent(
    client_for: ClientFor, member: User, other_workspace: Workspace, outsider: User, workspace: Workspace
) -> None:
    theirs = opened(other_workspace, outsider)
    assert client_for(member).get(f"/w/lab/computers/{theirs.pk}/").status_code == 404
    assert client_for(member).get(f"/w/elsewhere/computers/{theirs.pk}/").status_code == 404
