"""The Task sets pages: browse, filter, page by page, what was refused, and one task made readable."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from console.models import User, Workspace
from runs.models import TaskSet
from tests import factories

ClientFor = Callable[[User], Client]


@pytest.fixture
def task_set(workspace: Workspace) -> TaskSet:
    refused = [
        {"file": "chrome/a.json", "code": "needs_web", "reason": "It visits a live site."},
        {"file": "gimp/b.json", "code": "metric_unsupported", "reason": "No metric compare_it."},
    ]
    made: TaskSet = factories.TaskSetFactory(workspace=workspace, tasks=0, refused=refused)
    for place in range(1, 121):
        factories.TaskFactory(
            task_set=made,
            position=place,
            title=f"Number {place}",
            related_apps=["gimp"] if place % 2 else ["vlc", "os"],
            recipe=[{"action": "key", "keys": ["ctrl", "s"]}] if place <= 3 else None,
        )
    return made


@pytest.fixture
def address(task_set: TaskSet) -> str:
    return reverse("task-set", args=[task_set.workspace.slug, task_set.name])


def _titles(client: Client, address: str) -> list[str]:
    reply = client.get(address)
    assert reply.status_code == 200
    return [task.title for task in reply.context["rows"]]


def test_without_a_task_set_the_page_says_how_to_import_one(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    page = client_for(member).get(reverse("task-set-list", args=[workspace.slug])).content.decode()
    assert "manage.py import_tasks osworld PATH --workspace lab" in page


def test_the_list_counts_tasks_recipes_and_refusals(
    client_for: ClientFor, member: User, workspace: Workspace, task_set: TaskSet
) -> None:
    shown = client_for(member).get(reverse("task-set-list", args=[workspace.slug])).context["sets"].get()
    assert (shown.n, shown.with_recipe, len(shown.refused)) == (120, 3, 2)


def test_pages_follow_each_other_without_a_gap_and_back(
    client_for: ClientFor, member: User, address: str
) -> None:
    client = client_for(member)
    seen, at, pages = [], "", []
    while at is not None:
        reply = client.get(address + at)
        pages.append([task.position for task in reply.context["rows"]])
        seen += pages[-1]
        at = reply.context["older"]
    assert seen == list(range(1, 121))
    back = client.get(address + client.get(address + "?after=100").context["newer"])
    assert [task.position for task in back.context["rows"]] == list(range(51, 101))


@pytest.mark.parametrize(
    ("query", "titles"),
    [
        ("?q=number+17", ["Number 17", "Number 117"]),
        ("?recipe=on", ["Number 1", "Number 2", "Number 3"]),
        ("?recipe=on&app=os", ["Number 2"]),
        ("?q=VLC&recipe=on", ["Number 2"]),
        ("?q=nothing+like+it", []),
    ],
)
def test_filters(client_for: ClientFor, member: User, address: str, query: str, titles: list[str]) -> None:
    assert _titles(client_for(member), address + query) == titles


def test_refused_files_are_listed_with_their_reasons(
    client_for: ClientFor, member: User, address: str
) -> None:
    page = client_for(member).get(f"{address}?tab=refused").content.decode()
    assert "It visits a live site." in page
    assert "No metric compare_it." in page
    page = client_for(member).get(f"{address}?tab=refused&code=needs_web").content.decode()
    assert "No metric compare_it." not in page


def test_the_page_costs_the_same_for_few_and_for_many(
    client_for: ClientFor,
    member: User,
    workspace: Workspace,
    address: str,
    django_assert_max_num_queries: object,
) -> None:
    client = client_for(member)
    client.get(address)
    with django_assert_max_num_queries(22):  # type: ignore[operator]
        client.get(address)


def test_a_task_says_how_it_is_set_up_checked_and_solved(
    client_for: ClientFor, member: User, workspace: Workspace, task_set: TaskSet
) -> None:
    document = {
        "id": "rename",
        "instruction": "Rename it.",
        "config": [{"type": "execute", "parameters": {"command": ["mkdir", "one"]}}],
        "evaluator": {
            "func": "exact_match",
            "result": {"type": "vm_command_line", "command": ["ls", "/home/user"]},
            "expected": {"type": "rule", "rules": {"expected": "two"}},
        },
    }
    recipe = [
        {"action": "click", "x": 4, "y": 5, "button": "right", "note": "Open the menu"},
        {"action": "type", "text": "two\n"},
    ]
    task = factories.TaskFactory(task_set=task_set, position=200, document=document, recipe=recipe)
    address = reverse("task", args=[workspace.slug, task_set.name, task.task_id])
    page = client_for(member).get(address).content.decode()
    for words in (
        "mkdir one",
        "Exact match",
        "ls /home/user",
        "Click with the right button",
        "Open the menu",
    ):
        assert words in page


def test_a_task_that_cannot_be_taken_apart_still_opens(
    client_for: ClientFor, member: User, workspace: Workspace, task_set: TaskSet
) -> None:
    address = reverse("task", args=[workspace.slug, task_set.name, "task-1"])
    assert "cannot be taken apart" in client_for(member).get(address).content.decode()


def test_an_outsider_finds_nothing(
    client_for: ClientFor, outsider: User, workspace: Workspace, task_set: TaskSet, address: str
) -> None:
    client = client_for(outsider)
    assert client.get(reverse("task-set-list", args=[workspace.slug])).status_code == 404
    assert client.get(address).status_code == 404
    assert client.get(reverse("task", args=[workspace.slug, task_set.name, "task-1"])).status_code == 404


def test_what_there_is_not_is_not_found(
    client_for: ClientFor, member: User, workspace: Workspace, task_set: TaskSet
) -> None:
    client = client_for(member)
    assert client.get(reverse("task-set", args=[workspace.slug, "none"])).status_code == 404
    assert client.get(reverse("task", args=[workspace.slug, task_set.name, "none"])).status_code == 404


def test_the_pages_only_show(client_for: ClientFor, owner: User, address: str) -> None:
    assert client_for(owner).post(address).status_code == 405
