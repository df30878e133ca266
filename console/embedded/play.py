"""Scripted tests played through the API, as anybody plays them: the first one, or all tasks of a set."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from .api import Api, ApiError
from .terminal import Terminal

FIRST_NAME = "First test"
TASK_SET = "deskyard-basics"
TERMINAL = ("completed", "failed", "cancelled")
FIRST_MINUTES, ALL_MINUTES = 10, 60
TEMPLATE_MINUTES = 45  # the longest that the image of a template may still be in the making

Wait = Callable[[float], None]


def play_first_test(api: Api, template: str, wait: Wait) -> Iterator[str]:
    """Lines for the terminal. Plays nothing when a first test has completed here before.

    Raises ApiError when the console refuses or does not answer.
    """
    runs = api.get("/v1/runs")["results"]
    if any(run["name"] == FIRST_NAME and run["status"] == "completed" for run in runs):
        return
    version = _published(api, template)
    if version is None:
        raise ApiError(f"the template {template} is not published")
    task = _first_task(api, template)
    run = _start(api, FIRST_NAME, version, [task["id"]], FIRST_MINUTES, "0.10")
    yield f"First test: run #{run['number']} plays “{task['instruction']}”"
    run = _until_it_ends(api, run, FIRST_MINUTES, wait)
    counts = run["counts"]
    if run["status"] == "completed" and counts["success"] == counts["planned"]:
        yield f"First test: success, and verified. It cost ${run['cost']['spent_usd']}."
    else:
        yield f"First test: no success. {_sum(run)}"
    yield f"  {run['url']}"


def play_all(api: Api, template: str, task_set: str, terminal: Terminal, wait: Wait) -> int:
    """Every task of the set that has a recipe and runs on the template. The exit code: 0 when all succeed."""
    deadline = time.monotonic() + TEMPLATE_MINUTES * 60
    while (version := _published(api, template)) is None:
        if time.monotonic() > deadline:
            raise ApiError(f"the template {template} was not published within {TEMPLATE_MINUTES} minutes")
        wait(2)
    tasks = [task["id"] for task in _playable(api, task_set, template)]
    run = _start(api, f"All of {task_set}", version, tasks, ALL_MINUTES, "5.00", task_set=task_set)
    terminal.line(f"Run #{run['number']} plays {len(tasks)} tasks on {version}: {run['url']}")
    run = _until_it_ends(api, run, ALL_MINUTES, wait)
    for attempt in api.pages(f"/v1/runs/{run['id']}/attempts"):
        verdict = attempt["outcome"] or "—"
        why = ", ".join(attempt["invalid_reasons"]) or attempt["checker_error"] or ""
        terminal.line(f"  {verdict:8}{attempt['verifier']:12}{attempt['status']:8}{attempt['task']}  {why}")
    terminal.line(_sum(run))
    return 0 if run["status"] == "completed" and run["counts"]["success"] == len(tasks) else 1


def _start(
    api: Api, name: str, version: str, tasks: list[str], minutes: int, cap: str, *, task_set: str = TASK_SET
) -> dict[str, Any]:
    document = {"kind": "scripted_test", "name": name, "task_set": task_set, "tasks": tasks, "max_steps": 50}
    limits = {"template": version, "spend_cap_usd": cap, "time_cap_minutes": minutes}
    return dict(api.post("/v1/runs", document | limits))


def _until_it_ends(api: Api, run: dict[str, Any], minutes: int, wait: Wait) -> dict[str, Any]:
    deadline = time.monotonic() + minutes * 60 + 60
    while run["status"] not in TERMINAL:
        if time.monotonic() > deadline:
            raise ApiError(f"run #{run['number']} is still {run['status']} long after its time cap")
        wait(0.5)
        run = api.get(f"/v1/runs/{run['id']}")
    return run


def _published(api: Api, template: str) -> str | None:
    """`name@version`, the newest published one."""
    versions = [
        one["version"]
        for one in api.pages("/v1/templates")
        if one["name"] == template and one["status"] == "published"
    ]
    return f"{template}@{max(versions)}" if versions else None


def _playable(api: Api, task_set: str, template: str) -> list[dict[str, Any]]:
    return [
        task
        for task in api.pages(f"/v1/task_sets/{task_set}/tasks")
        if task["has_recipe"] and template in [str(name).partition("@")[0] for name in task["templates"]]
    ]


def _first_task(api: Api, template: str) -> dict[str, Any]:
    tasks = _playable(api, TASK_SET, template)
    if not tasks:
        raise ApiError(f"no task of {TASK_SET} has a recipe and runs on {template}")
    return tasks[0]


def _sum(run: dict[str, Any]) -> str:
    counts = run["counts"]
    return (
        f"Run #{run['number']} {run['status']} ({run['stop_reason'] or 'no stop reason'}): "
        f"{counts['success']} success, {counts['fail']} fail, {counts['error']} error of {counts['planned']}; "
        f"${run['cost']['spent_usd']}"
    )
