"""Submit, add, seal and read over HTTP: replies, refusals, other workspaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.models import User, Workspace
from desktops.models import TemplateVersion
from evaluations.models import Batch, Evaluation, Rollout
from runs.models import Task, TaskSet
from tests.evaluations.conftest import batch
from tests.factories import StateFactory, TemplateVersionFactory

pytestmark = pytest.mark.django_db
ALL = ("evaluations:read", "evaluations:write")
Api = Callable[..., APIClient]


def codes(reply: Any) -> list[tuple[str, str]]:
    assert reply.status_code == 422, reply.json()
    return [(error["field"], error["code"]) for error in reply.json()["errors"]]


def test_a_set_is_submitted_sealed_and_read(api: Api, basics: TaskSet) -> None:
    client = api(*ALL)
    reply = client.post("/preview/evaluations", {"name": "night", **batch("task-1", "task-2", seeds=[1, 2])})
    assert reply.status_code == 201
    said = reply.json()
    assert (said["name"], said["status"], said["counts"]["total"]) == ("night", "sealed", 4)
    assert said["batches"][0]["judge"] == "osworld@v1"
    assert said["batches"][0]["environment_digest"] == TemplateVersion.objects.get().digest
    assert client.get("/preview/evaluations/night").json() == said
    rows = client.get("/preview/evaluations/night/rollouts").json()["results"]
    assert [(row["number"], row["spec"]["task"], row["seed"]) for row in rows] == [
        (1, "task-1", 1),
        (2, "task-1", 2),
        (3, "task-2", 1),
        (4, "task-2", 2),
    ]
    assert len({row["identity"] for row in rows}) == 4
    assert [one["name"] for one in client.get("/preview/evaluations").json()["results"]] == ["night"]


def test_an_open_set_grows_until_it_is_sealed(api: Api, basics: TaskSet) -> None:
    client = api(*ALL)
    client.post("/preview/evaluations", {"name": "night", "open": True, **batch("task-1")})
    more = client.post("/preview/evaluations/night/rollouts", batch("task-2", labels={"batch": "two"}))
    assert more.status_code == 201
    assert [one["number"] for one in more.json()["batches"]] == [1, 2]
    assert (more.json()["status"], more.json()["counts"]["total"]) == ("open", 2)
    for _ in range(2):  # twice is no error
        sealed = client.post("/preview/evaluations/night/seal")
        assert (sealed.status_code, sealed.json()["status"]) == (200, "sealed")
    late = client.post("/preview/evaluations/night/rollouts", batch("task-1", seeds=[9]))
    assert (late.status_code, late.json()["code"]) == (409, "sealed")
    assert Rollout.objects.count() == 2


def test_adding_to_none_makes_it_open(api: Api, basics: TaskSet) -> None:
    reply = api(*ALL).post("/preview/evaluations/fresh/rollouts", batch())
    assert (reply.status_code, reply.json()["status"]) == (201, "open")


def test_a_batch_with_a_row_that_is_there_is_refused_whole(api: Api, basics: TaskSet) -> None:
    client = api(*ALL)
    client.post("/preview/evaluations", {"name": "night", "open": True, **batch("task-1")})
    have = Rollout.objects.get().identity
    reply = client.post("/preview/evaluations/night/rollouts", batch("task-2", "task-1"))
    assert (reply.status_code, reply.json()["code"]) == (409, "duplicate_identities")
    assert reply.json()["identities"] == [have]
    assert (Rollout.objects.count(), Batch.objects.count()) == (1, 1)


def test_a_batch_with_a_row_twice_is_refused(api: Api, basics: TaskSet) -> None:
    reply = api(*ALL).post("/preview/evaluations", {"name": "night", **batch("task-1", seeds=[3, 3])})
    assert (reply.status_code, len(reply.json()["identities"])) == (409, 1)
    assert not Evaluation.objects.exists()


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        ({"environment": {"kind": "sandbox", "template": "basic@9"}}, ("environment.template", "unknown_template")),
        ({"environment": {"kind": "sandbox", "template": "basic"}}, ("environment.template", "unknown_template")),
        ({"environment": {"kind": "sandbox", "template": f"a@{10**30}"}}, ("environment.template", "unknown_template")),
        ({"environment": {"kind": "sandbox", "state": "7" * 32}}, ("environment.state", "unknown_state")),
        ({"environment": {"kind": "task", "image": "a"}}, ("environment.kind", "not_yet")),
        ({"spec": {"task_set": "none", "task": "task-1", "recipe": True}}, ("spec.task_set", "unknown_task_set")),
        ({"spec": {"task_set": "basics", "task": "none", "recipe": True}}, ("spec.task", "unknown_task")),
        ({"spec": {"task_set": "basics", "task": "task-1"}}, ("spec.recipe", "required")),
        ({"spec": {"task_set": "basics", "task": "task-1", "external": True}}, ("spec.external", "not_yet")),
        ({"spec": {"task_set": "basics", "task": "task-1", "recipe": True, "x": 1}}, ("spec.x", "unknown_field")),
        ({"spec": {"task_set": 1, "task": "task-1", "recipe": True}}, ("spec.task_set", "required")),
        ({"judge": "goal-region@v1"}, ("judge", "cannot_judge")),
        ({"policy": None}, ("policy", "required")),
        ({"group": 2, "seeds": 2, "memo": False}, ("group", "not_yet")),
        ({"surprise": 1}, ("surprise", "unknown_field")),
        ({"name": "no spaces"}, ("name", "invalid")),
    ],
)  # fmt: skip
def test_what_cannot_be_played_is_refused_by_its_field(
    changes: dict[str, Any], refused: tuple[str, str], api: Api, basics: TaskSet
) -> None:
    reply = api(*ALL).post("/preview/evaluations", {"name": "night", **batch(), **changes})
    assert refused in codes(reply)
    assert not Evaluation.objects.exists()


def test_a_task_without_a_recipe_or_for_other_apps_is_refused(api: Api, basics: TaskSet) -> None:
    Task.objects.filter(task_id="task-1").update(recipe=None)
    Task.objects.filter(task_id="task-2").update(templates=["office"])
    reply = api(*ALL).post("/preview/evaluations", {"name": "night", **batch("task-1", "task-2")})
    assert codes(reply) == [("spec.0.task", "no_recipe"), ("spec.1.task", "needs_another_template")]


def test_another_workspaces_template_task_set_and_state_are_unknown(
    api: Api, other_workspace: Workspace, basics: TaskSet
) -> None:
    version = TemplateVersionFactory(workspace=other_workspace, name="theirs")
    state = StateFactory(workspace=other_workspace, worker__workspace=other_workspace)
    client = api(*ALL)
    for place, field in ((f"{version}", "template"), (str(state.pk), "state")):
        asked = {"name": "night", **batch(environment={"kind": "sandbox", field: place})}
        assert codes(client.post("/preview/evaluations", asked)) == [
            (f"environment.{field}", f"unknown_{field}")
        ]
    TaskSet.objects.update(workspace=other_workspace)
    asked = {"name": "night", **batch()}
    assert codes(client.post("/preview/evaluations", asked)) == [("spec.task_set", "unknown_task_set")]


def test_a_name_of_another_workspace_is_taken_and_its_set_unknown(
    api: Api, basics: TaskSet, outsider: User, other_workspace: Workspace
) -> None:
    api(*ALL).post("/preview/evaluations", {"name": "night", "open": True, **batch()})
    TaskSet.objects.update(workspace=other_workspace)
    TemplateVersionFactory(workspace=other_workspace)
    theirs = api(*ALL, user=outsider, workspace=other_workspace)
    for reply in (
        theirs.post("/preview/evaluations", {"name": "night", **batch()}),
        theirs.post("/preview/evaluations/night/rollouts", batch()),
    ):
        assert (reply.status_code, reply.json()["code"]) == (409, "name_taken")
    for path in ("", "/rollouts", "/report"):
        assert theirs.get(f"/preview/evaluations/night{path}").status_code == 404
    assert theirs.post("/preview/evaluations/night/seal").status_code == 404
    assert theirs.get("/preview/evaluations").json()["results"] == []
    assert Rollout.objects.count() == 1


def test_the_same_key_makes_one_set(api: Api, basics: TaskSet) -> None:
    client = api(*ALL)
    asked = {"name": "night", "idempotency_key": "k1", **batch()}
    first, again = (client.post("/preview/evaluations", asked) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert Evaluation.objects.count() == 1
    other = client.post("/preview/evaluations", {**asked, "name": "day"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")


def test_a_submit_of_a_name_that_exists_is_refused(api: Api, basics: TaskSet) -> None:
    client = api(*ALL)
    for expected in (201, 409):
        reply = client.post("/preview/evaluations", {"name": "night", **batch()})
        assert reply.status_code == expected


def test_a_wrong_address_says_what_may_have_been_meant(api: Api, db: None) -> None:
    reply = api(*ALL).get("/preview/evaluation")
    assert (reply.status_code, reply.json()["code"]) == (404, "not_found")
    assert "/preview/evaluations" in reply.json()["detail"]
