"""The first scripted test, started through the API like anybody's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from .api import Api, ApiError

NAME = "First test"
TASK_SET = "deskyard-basics"
TERMINAL = ("completed", "failed", "cancelled")
MINUTES = 10


def play_first_test(url: str, token: str, template: str, wait: Callable[[float], None]) -> Iterator[str]:
    """Lines for the terminal. Plays nothing when a first test has completed here before.

    Raises ApiError when the console refuses or does not answer.
    """
    api = Api(url, token)
    if any(run["name"] == NAME and run["status"] == "completed" for run in api.get("/v1/runs")["results"]):
        yield f"A first test has passed here before: {url}/"
        return
    task = _first_task(api, template)
    run = api.post(
        "/v1/runs",
        {
            "kind": "scripted_test",
            "name": NAME,
            "task_set": TASK_SET,
            "tasks": [task["id"]],
            "template": f"{template}@1",
            "spend_cap_usd": "0.10",
            "time_cap_minutes": MINUTES,
        },
    )
    yield f"First test: run #{run['number']} plays “{task['instruction']}”"
    deadline = time.monotonic() + MINUTES * 60 + 60
    while run["status"] not in TERMINAL:
        if time.monotonic() > deadline:
            raise ApiError(f"run #{run['number']} is still {run['status']} long after its time cap")
        wait(0.5)
        run = api.get(f"/v1/runs/{run['id']}")
    yield from _result(run)


def _first_task(api: Api, template: str) -> dict[str, Any]:
    for task in api.pages(f"/v1/task_sets/{TASK_SET}/tasks"):
        named = [str(each).partition("@")[0] for each in task["templates"]]
        if task["has_recipe"] and template in named:
            return task
    raise ApiError(f"no task of {TASK_SET} has a recipe and runs on {template}")


def _result(run: dict[str, Any]) -> Iterator[str]:
    counts = run["counts"]
    took = f", ${run['cost']['spent_usd']} spent" if run.get("cost") else ""
    if run["status"] == "completed" and counts["success"] == counts["planned"]:
        yield f"First test: success, {counts['valid']} of {counts['planned']} attempts verified{took}."
    else:
        yield (
            f"First test: {run['status']} ({run.get('stop_reason') or 'no stop reason'}); "
            f"{counts['success']} of {counts['planned']} attempts succeeded, {counts['error']} had an error."
        )
    yield f"  {run['url']}"
