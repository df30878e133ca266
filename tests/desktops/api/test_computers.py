"""/v1/computers: opened, listed, read, saved, closed."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from rest_framework.test import APIClient

from console.actor import Actor
from console.models import User, Workspace
from desktops.actions.templates import discard_draft
from desktops.models import Ask, Hold, LiveView, TemplateVersion
from tests.desktops.hands import answer, end, opened, start
from tests.factories import HoldFactory, StateFactory, TemplateVersionFactory
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db
Api = Callable[..., APIClient]
WRITE = ("computers:read", "computers:write")


@pytest.fixture
def version(workspace: Workspace) -> Any:
    return TemplateVersionFactory(workspace=workspace)


@pytest.fixture
def paper(workspace: Workspace, owner: User) -> PaperWorker:
    return PaperWorker(workspace, owner)


def post(client: APIClient, document: dict[str, Any], path: str = "/v1/computers", **headers: str) -> Any:
    return client.post(path, json.dumps(document), content_type="application/json", **headers)


def test_one_is_opened_with_defaults_and_says_where_it_is(api: Api, version: Any) -> None:
    client = api(*WRITE)
    reply = post(client, {"template": "basic@1"})
    assert reply.status_code == 201
    document = reply.json()
    said = (
        "status",
        "label",
        "template",
        "state",
        "idle_minutes",
        "max_minutes",
        "spend_cap_usd",
        "spent_usd",
    )
    assert {name: document[name] for name in said} == {
        "status": "waiting",
        "label": None,
        "template": "basic@1",
        "state": None,
        "idle_minutes": 15,
        "max_minutes": 60,
        "spend_cap_usd": "0.50",
        "spent_usd": "0.00",
    }
    assert reply["Location"].endswith(f"/v1/computers/{document['id']}")
    assert client.get(reply["Location"]).json() == document


def test_its_document_follows_it_to_its_end(
    api: Api, version: Any, paper: PaperWorker, workspace: Workspace
) -> None:
    client = api(*WRITE)
    hold = Hold.objects.get(pk=post(client, {"template": "basic@1", "spend_cap_usd": "2.00"}).json()["id"])
    address = f"/v1/computers/{hold.pk}"
    computer = start(paper, hold)
    document = client.get(address).json()
    assert (document["status"], document["label"], document["worker"]) == ("ready", "c-0001", "paper")
    assert all(document[name] for name in ("started_at", "ready_at", "last_used_at", "idle_at", "closes_at"))
    for _ in range(2):  # closing twice is no error
        reply = client.delete(address)
        assert (reply.status_code, reply.json()["status"]) == (200, "closing")
    end(paper, hold, computer)
    document = client.get(address).json()
    assert (document["status"], document["stop_reason"], document["idle_at"]) == (
        "closed",
        "closed_by_user",
        None,
    )
    assert float(document["spent_usd"]) > 0


def test_from_a_saved_desktop_it_names_it(api: Api, paper: PaperWorker, version: Any) -> None:
    state = StateFactory(worker=paper.worker, template_version=version, origin="saved")
    document = post(api(*WRITE), {"state": str(state.pk)}).json()
    assert (document["state"], document["template"]) == (str(state.pk), "basic@1")


@pytest.mark.parametrize(
    ("document", "field", "code"),
    [
        ({}, "template", "template_or_state"),
        ({"template": "basic@1", "state": str(uuid.uuid4())}, "template", "template_or_state"),
        ({"template": "basic@2"}, "template", "unknown_template"),
        ({"template": "basic"}, "template", "unknown_template"),
        ({"template": 7}, "template", "invalid"),
        ({"template": "draft@1"}, "template", "not_published"),
        ({"template": "strange@1"}, "template", "unknown_template"),
        ({"state": str(uuid.uuid4())}, "state", "unknown_state"),
        ({"state": "x"}, "state", "invalid"),
        ({"template": "basic@1", "idle_minutes": 0}, "idle_minutes", "min_value"),
        ({"template": "basic@1", "max_minutes": 1441}, "max_minutes", "max_value"),
        ({"template": "basic@1", "max_minutes": "5"}, "max_minutes", "invalid"),
        ({"template": "basic@1", "spend_cap_usd": "0"}, "spend_cap_usd", "min_value"),
        ({"template": "basic@1", "chip": "h100"}, "chip", "unknown_field"),
    ],
)
def test_what_cannot_be_opened_is_named(
    api: Api,
    workspace: Workspace,
    other_workspace: Workspace,
    version: Any,
    document: dict[str, Any],
    field: str,
    code: str,
) -> None:
    TemplateVersionFactory(workspace=workspace, name="draft", draft=True)
    TemplateVersionFactory(workspace=other_workspace, name="strange")
    reply = post(api(*WRITE), document)
    assert reply.status_code == 422
    assert [(error["field"], error["code"]) for error in reply.json()["errors"]] == [(field, code)]
    assert not Hold.objects.exists()


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"status": "gone"}, "state_gone"), ({"template_version": None}, "state_unknown_image")],
)
def test_a_saved_desktop_of_no_use_is_refused(
    api: Api, paper: PaperWorker, version: Any, changes: dict[str, Any], code: str
) -> None:
    state = StateFactory(worker=paper.worker, **{"template_version": version, **changes})
    reply = post(api(*WRITE), {"state": str(state.pk)})
    assert [error["code"] for error in reply.json()["errors"]] == [code]


def test_the_same_key_opens_one(api: Api, version: Any) -> None:
    client = api(*WRITE)
    first, again = (post(client, {"template": "basic@1"}, HTTP_IDEMPOTENCY_KEY="k") for _ in range(2))
    assert first.json() == again.json()
    assert again["Idempotency-Replayed"] == "true"
    assert Hold.objects.count() == 1


def test_the_list_is_by_status_and_in_pages_newest_first(
    api: Api,
    workspace: Workspace,
    other_workspace: Workspace,
    member: User,
    outsider: User,
    paper: PaperWorker,
) -> None:
    holds = [opened(workspace, member) for _ in range(3)]
    opened(other_workspace, outsider)
    start(paper, holds[0])
    client = api("computers:read")
    page = client.get("/v1/computers?limit=2").json()
    found = [row["id"] for row in page["results"] + client.get(page["next"]).json()["results"]]
    assert found == [str(hold.pk) for hold in reversed(holds)]
    (ready,) = client.get("/v1/computers?status=ready").json()["results"]
    assert ready["id"] == str(holds[0].pk)
    assert client.get("/v1/computers?status=lost").status_code == 422


@pytest.mark.parametrize("count", [1, 8])
def test_a_list_of_any_length_takes_the_same_queries(
    api: Api, workspace: Workspace, owner: User, count: int, django_assert_num_queries: Any
) -> None:
    paper = PaperWorker(workspace, owner, slots=20)
    for _ in range(count):
        start(paper, opened(workspace, owner))
    client = api("computers:read")
    client.get("/v1/computers")
    with django_assert_num_queries(2):
        assert len(client.get("/v1/computers").json()["results"]) == count


def test_anothers_is_absent_and_a_members_may_not_be_closed_by_another_member(
    api: Api, workspace: Workspace, other_workspace: Workspace, outsider: User, owner: User, member: User
) -> None:
    theirs = opened(other_workspace, outsider)
    client = api(*WRITE)
    for path in ("", "/states", "/template"):
        address = f"/v1/computers/{theirs.pk}{path}"
        body = {"name": "mine"} if path == "/template" else {}
        reply = post(client, body, address) if path else client.get(address)
        assert reply.status_code == 404
    mine = opened(workspace, owner)
    reply = api(*WRITE, user=member).delete(f"/v1/computers/{mine.pk}")
    assert (reply.status_code, reply.json()["code"]) == (403, "may_not_use")


def test_saving_waits_for_the_answer_or_says_that_it_is_at_it(
    api: Api, workspace: Workspace, owner: User, paper: PaperWorker
) -> None:
    hold = opened(workspace, owner)
    computer = start(paper, hold)
    client, address = api(*WRITE), f"/v1/computers/{hold.pk}/states"
    key = {"HTTP_IDEMPOTENCY_KEY": "save"}
    reply = post(client, {"label": "Half done"}, f"{address}?wait=0", **key)
    assert (reply.status_code, reply.json()["status"]) == (202, "asked")
    refused = post(client, {}, f"{address}?wait=0")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_ready")
    ask = Ask.objects.get(pk=reply.json()["id"])
    answer(paper, ask, computer)
    reply = post(client, {"label": "Half done"}, f"{address}?wait=0", **key)
    assert (reply.status_code, reply.json()["label"], reply.json()["origin"]) == (201, "Half done", "saved")
    assert (reply.json()["keep_days"], reply.json()["expires_at"] is None) == (14, False)
    assert reply.json()["made_by"] == {"kind": "computer", "id": str(hold.pk)}
    (asked,) = client.get(f"/v1/computers/{hold.pk}").json()["asks"]
    assert (asked["status"], asked["state"]) == ("done", reply.json()["id"])


def test_a_template_version_is_a_draft_and_what_cannot_be_made_says_why(
    api: Api, workspace: Workspace, owner: User, paper: PaperWorker
) -> None:
    hold = opened(workspace, owner)
    start(paper, hold)
    client, address = api(*WRITE), f"/v1/computers/{hold.pk}/template?wait=0"
    first = {"HTTP_IDEMPOTENCY_KEY": "1"}
    document = {"name": "with-data", "title": "With our data"}
    reply = post(client, document, address, **first)
    assert reply.json()["template"] == "with-data@1"
    answer(paper, Ask.objects.get(pk=reply.json()["id"]), error="this engine cannot make an image")
    reply = post(client, document, address, **first)
    assert (reply.status_code, reply.json()["code"]) == (409, "not_saved")
    assert reply.json()["detail"] == "this engine cannot make an image"
    second = {"HTTP_IDEMPOTENCY_KEY": "2"}
    answer(paper, Ask.objects.get(pk=post(client, document, address, **second).json()["id"]))
    reply = post(client, document, address, **second)
    assert (reply.status_code, reply.json()["name"], reply.json()["status"]) == (201, "with-data", "draft")
    assert post(client, {"template": "with-data@1"}).json()["errors"][0]["code"] == "not_published"
    discard_draft(TemplateVersion.objects.get(template__name="with-data"), actor=Actor.person(owner))
    reply = post(client, document, address, **second)
    assert (reply.status_code, reply.json()["code"]) == (409, "discarded")


@pytest.mark.parametrize("name", ["OK", "_", "-", "1__", "a--b", "Z" * 50])
def test_a_template_is_named_as_images_are(
    api: Api, workspace: Workspace, owner: User, paper: PaperWorker, name: str
) -> None:
    hold = opened(workspace, owner)
    start(paper, hold)
    reply = post(api(*WRITE), {"name": name}, f"/v1/computers/{hold.pk}/template?wait=0")
    assert (reply.status_code, [error["field"] for error in reply.json()["errors"]]) == (422, ["name"])
    assert not Ask.objects.exists()


@pytest.mark.parametrize(
    ("path", "document", "field", "code"),
    [
        ("template", {"name": 5}, "name", "invalid"),
        ("template", {"name": "mine", "titel": "Mine"}, "titel", "unknown_field"),
        ("states", {"name": "Half done"}, "name", "unknown_field"),
        ("states", {"keep_days": 0}, "keep_days", "min_value"),
        ("view", {"drives": True}, "drives", "unknown_field"),
    ],
)
def test_what_is_not_of_the_document_is_refused_and_nothing_is_asked(
    api: Api,
    workspace: Workspace,
    owner: User,
    paper: PaperWorker,
    path: str,
    document: dict[str, Any],
    field: str,
    code: str,
) -> None:
    hold = opened(workspace, owner)
    start(paper, hold)
    reply = post(api(*WRITE), document, f"/v1/computers/{hold.pk}/{path}")
    assert reply.status_code == 422
    assert [(error["field"], error["code"]) for error in reply.json()["errors"]] == [(field, code)]
    assert not Ask.objects.exists()
    assert not LiveView.objects.exists()


@pytest.mark.parametrize("wait", ["-1", "31", "soon", ""])
def test_a_wait_that_cannot_be_is_refused_and_nothing_is_asked(
    api: Api, workspace: Workspace, owner: User, paper: PaperWorker, wait: str
) -> None:
    hold = opened(workspace, owner)
    start(paper, hold)
    reply = post(api(*WRITE), {}, f"/v1/computers/{hold.pk}/states?wait={wait}")
    assert [error["field"] for error in reply.json()["errors"]] == ["wait"]
    assert not Ask.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_an_answer_that_comes_while_it_waits_is_the_reply(
    api: Api, workspace: Workspace, owner: User, paper: PaperWorker
) -> None:
    hold = opened(workspace, owner)
    computer = start(paper, hold)

    def worker() -> None:
        try:
            while not (asked := Ask.objects.first()):
                pass
            answer(paper, asked, computer)
        finally:
            connection.close()

    thread = threading.Thread(target=worker)
    thread.start()
    reply = post(api(*WRITE), {"label": "Now"}, f"/v1/computers/{hold.pk}/states")
    thread.join()
    assert (reply.status_code, reply.json()["label"]) == (201, "Now")


def test_a_token_without_the_scope_opens_and_closes_nothing(
    api: Api, version: Any, workspace: Workspace
) -> None:
    client = api("computers:read")
    assert post(client, {"template": "basic@1"}).json()["code"] == "scope_missing"


def test_one_that_has_a_desktop_can_be_watched_and_others_say_why_not(
    api: Api, workspace: Workspace, member: User
) -> None:
    hold = HoldFactory(workspace=workspace, ready=True, opened_by=member)
    reply = post(api("computers:read", user=member), {}, f"/v1/computers/{hold.pk}/view")
    assert reply.status_code == 201
    assert reply.json()["socket"].startswith("ws://testserver/ws/watch/")
    assert LiveView.objects.get().drives is False
    waiting = HoldFactory(workspace=workspace, opened_by=member)
    refused = post(api("computers:read", user=member), {}, f"/v1/computers/{waiting.pk}/view")
    assert (refused.status_code, refused.json()["code"]) == (409, "not_live")
    client = api(*WRITE, user=member)
    client.delete(f"/v1/computers/{hold.pk}")
    closing = post(client, {}, f"/v1/computers/{hold.pk}/view")
    assert (closing.status_code, closing.json()["code"]) == (409, "not_live")
