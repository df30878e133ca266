"""An evaluation on real desktops: each rollout judged, a second one of the same identities served from memory."""

from __future__ import annotations

import time
from typing import Any

import pytest

from console.embedded.api import Api

from .conftest import Site

pytestmark = pytest.mark.desktop
TASKS = ("count-errors", "rename-folder")
PATIENCE = 300


@pytest.mark.timeout(600)
def test_rollouts_are_played_on_desktops_judged_and_remembered(site: Site) -> None:
    api = Api(site.url, site.demo["token"])
    wanted: dict[str, Any] = {
        "environment": {"kind": "sandbox", "template": "basic@1"},
        "judge": "osworld@v1",
        "policy": "recipes",
        "spec": [{"task_set": "deskyard-basics", "task": task, "recipe": True} for task in TASKS],
    }
    api.post("/preview/evaluations", {"name": "played", **wanted})
    played = complete(api, "played")
    assert (played["counts"]["valid"], played["counts"]["success"]) == (2, 2), rollouts(api, "played")
    for row in rollouts(api, "played"):
        assert (row["outcome"], row["billed"]) == ("success", True)
        (verdict,) = row["verdicts"]
        assert verdict["evidence"]
    (block,) = api.get("/preview/evaluations/played/report")["judges"]
    assert float(block["cost_usd"]) > 0

    api.post("/preview/evaluations", {"name": "remembered", **wanted})
    assert complete(api, "remembered")["counts"]["memo_hits"] == 2
    (block,) = api.get("/preview/evaluations/remembered/report")["judges"]
    assert (block["all"]["success"], block["billed"], float(block["cost_usd"])) == (2, 0, 0)


def complete(api: Api, name: str) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE
    while (said := api.get(f"/preview/evaluations/{name}"))["status"] != "complete":
        assert time.monotonic() < deadline, said
        time.sleep(0.5)
    return dict(said)


def rollouts(api: Api, name: str) -> list[dict[str, Any]]:
    return list(api.get(f"/preview/evaluations/{name}/rollouts")["results"])
