"""GET /v1/task_sets and /v1/task_sets/{name}/tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.models import User, Workspace
from runs.models import TaskSet
from tests.factories import TaskFactory, TaskSetFactory, TemplateVersionFactory

pytestmark = pytest.mark.django_db


def ids(reply: Any) -> list[str]:
    assert reply.status_code == 200, reply.content
    return [task["id"] for task in reply.json()["results"]]


def test_task_sets_tell_how_many_of_their_tasks_have_a_recipe(
    api: Callable[..., APIClient], workspace: Workspace
) -> None:
    task_set = TaskSetFactory(workspace=workspace)
    TaskFactory(task_set=task_set, position=3, recipe=None)
    TaskSetFactory(workspace=workspace, name="other", tasks=0)
    rows = api("runs:read").get("/v1/task_sets").json()["results"]
    assert [(row["name"], row["tasks"], row["recipes"]) for row in rows] == [
        ("basics", 3, 2),
        ("other", 0, 0),
    ]


def test_only_the_newest_version_is_listed(api: Callable[..., APIClient], workspace: Workspace) -> None:
    TaskSetFactory(workspace=workspace)
    TaskSet.objects.update(is_current=False)
    TaskSetFactory(workspace=workspace, version=2, tasks=3)
    assert [row["version"] for row in api().get("/v1/task_sets").json()["results"]] == [2]
    assert len(ids(api().get("/v1/task_sets/basics/tasks"))) == 3


def test_tasks_tell_what_a_run_needs_to_know(api: Callable[..., APIClient], workspace: Workspace) -> None:
    task_set = TaskSetFactory(workspace=workspace)
    TaskFactory(
        task_set=task_set, position=3, recipe=None, templates=["office"], related_apps=["libreoffice_calc"]
    )
    rows = api("runs:read").get("/v1/task_sets/basics/tasks").json()["results"]
    assert {"id", "instruction", "related_apps", "has_recipe", "templates"} <= set(rows[0])
    assert [row["has_recipe"] for row in rows] == [True, True, False]
    assert rows[2]["templates"] == ["office"]
    assert rows[2]["related_apps"] == ["libreoffice_calc"]


def test_tasks_can_be_filtered(api: Callable[..., APIClient], workspace: Workspace) -> None:
    task_set = TaskSetFactory(workspace=workspace)
    TaskFactory(
        task_set=task_set, position=3, recipe=None, templates=["office"], related_apps=["libreoffice_calc"]
    )
    base, client = "/v1/task_sets/basics/tasks", api()
    assert ids(client.get(f"{base}?has_recipe=true")) == ["task-1", "task-2"]
    assert ids(client.get(f"{base}?has_recipe=false")) == ["task-3"]
    assert ids(client.get(f"{base}?app=libreoffice_calc")) == ["task-3"]
    assert ids(client.get(f"{base}?template=basic")) == ["task-1", "task-2"]
    assert ids(client.get(f"{base}?limit=2")) == ["task-1", "task-2"]
    assert ids(client.get(client.get(f"{base}?limit=2").json()["next"])) == ["task-3"]
    assert ids(client.get(f"{base}?has_recipe=False")) == ["task-3"]
    assert ids(client.get(f"{base}?has_recipe=")) == ["task-1", "task-2", "task-3"]
    for query, field in (
        ("app=%00", "app"),
        ("has_recipe=7", "has_recipe"),
        ("has_recipe=maybe", "has_recipe"),
    ):
        refused = client.get(f"{base}?{query}")
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, field)


def test_a_template_made_from_a_desktop_runs_what_its_base_runs(
    api: Callable[..., APIClient], workspace: Workspace, other_workspace: Workspace
) -> None:
    task_set = TaskSetFactory(workspace=workspace)
    TaskFactory(task_set=task_set, position=3, templates=["office"])
    base = TemplateVersionFactory(workspace=workspace, name="office")
    first = TemplateVersionFactory(workspace=workspace, name="with-data", base=base)
    TemplateVersionFactory(workspace=workspace, name="with-more", base=first)
    TemplateVersionFactory(workspace=other_workspace, name="theirs", base=base)
    client = api()
    for template, found in (
        ("with-more", ["task-1", "task-2", "task-3"]),
        ("theirs", []),
        ("basic", ["task-1", "task-2"]),
    ):
        assert ids(client.get(f"/v1/task_sets/basics/tasks?template={template}")) == found


def test_tasks_cost_the_same_however_many(
    api: Callable[..., APIClient], workspace: Workspace, django_assert_num_queries: Any
) -> None:
    task_set = TaskSetFactory(workspace=workspace)
    client = api()
    client.get("/v1/task_sets")
    for made in (False, True):
        with django_assert_num_queries(3):
            client.get("/v1/task_sets/basics/tasks")
        for place in range(10, 10 if made else 20):
            TaskFactory(task_set=task_set, position=place)


def test_who_may_not_read_them(
    api: Callable[..., APIClient], workspace: Workspace, outsider: User, other_workspace: Workspace
) -> None:
    TaskSetFactory(workspace=workspace)
    theirs = api(user=outsider, workspace=other_workspace)
    assert theirs.get("/v1/task_sets").json()["results"] == []
    assert theirs.get("/v1/task_sets/basics/tasks").status_code == 404
    for address in ("/v1/task_sets", "/v1/task_sets/basics/tasks"):
        assert APIClient().get(address).status_code == 401
        assert api("runs:write").get(address).status_code == 403
        assert api().post(address).status_code == 405
