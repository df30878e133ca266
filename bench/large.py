"""The largest run there can be: every page, list, stream and the making of one, over HTTP from a real console.

Its 1,171,200 attempts and ten million events are made by `manage.py make_large_run`, once: set DESKYARD_BENCH_HOME to
keep them for the next bench. Each address is asked for once after the console's start (cold) and then some rounds more
(warm); one after another, so that nothing but the answer itself is measured.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import connect

from console.embedded.home import PROJECT

from .console import Console
from .table import Figure, Missing, Peer, Row, Samples

GOAL_MS, GOAL_CREATE_SECONDS = 150.0, 1.0
WARM_ROUNDS, CREATIONS = 4, 5
NAME = "Made-up large run"
ANSWER_SECONDS = 120.0

# Under the run's page.
PAGES = (
    "",
    "?tasks=7",
    "rollouts/",
    "rollouts/?before=600000",
    "rollouts/?after=600000",
    "rollouts/?status=error",
    "rollouts/?status=cancelled&verifier=not_checked&outcome=none",
    "rollouts/?status=done&verifier=valid&outcome=fail",
    "rollouts/?status=done&verifier=invalid&before=500000",
    "rollouts/?status=error&verifier=valid",
    "rollouts/?outcome=success",
    "rollouts/?reason=worker_lost",
    "rollouts/?reason=checker_error&before=300000",
    "rollouts/?tries=more&outcome=success",
    "rollouts/?worker=made-up-3&status=error",
    "rollouts/?task=made-up-100&status=error",
    "rollouts/?q=made-up-001",
    "rollouts/?q=777777",
    "forks/",
    "forks/?page=1000",
    "computers/",
    "computers/?worker=made-up-3&before=700000",
    "metrics/",
    "events/",
    "events/?before=5000000",
    "events/?after=5000000",
    "events/?kind=run",
    "events/?kind=problems&before=5000000",
    "events/?kind=attempts",
    "events/?attempt=777777",
    "configuration/",
    "attempts/777777/",
    "attempts/777777/card/",
)
# Under the run's address of the API.
LISTS = (
    "",
    "/attempts",
    "/attempts?limit=200",
    "/attempts?status=error&status=cancelled",
    "/attempts?outcome=fail&verifier=valid&status=done",
    "/attempts?outcome=none",
    "/attempts?task=made-up-100&verifier=invalid",
    "/prefixes",
    "/events?limit=200",
    "/events?after=5000000&limit=200",
    "/events?kind=try_failed&kind=run_status",
    "/events?attempt=777777",
)


@dataclass(frozen=True)
class _Large:
    id: str
    number: int
    attempts: int
    events: int
    tasks: list[str]
    task_set: str


def measure(console: Console) -> list[Row]:
    rows: list[Row] = []
    if (run := _find()) is None:
        began = time.monotonic()
        _make(console)
        run = _find()
        if run is None:
            return [Missing("pages of the largest run", "it could not be made")]
        made = Samples((time.monotonic() - began,))
        rows.append(Figure("making the largest run's rows for this bench", "s", made, part=True))
    cold, warm = _ask_all(console, run)
    both = [value for values in warm.values() for value in values]
    limit = Peer("limit", Samples((GOAL_MS,)))
    what = f"pages, lists, stream at {run.attempts:,} attempts, {run.events:,} events: p95"
    slowest = sorted(warm, key=lambda path: -Samples(tuple(warm[path])).median)[:3]
    return [
        Figure(what, "ms", Samples((_p95(both),)), limit, GOAL_MS),
        Figure(f"all of them, each {WARM_ROUNDS} times", "ms", Samples(tuple(both)), part=True),
        Figure("each asked for the first time: p95", "ms", Samples((_p95(list(cold.values())),)), part=True),
        *(Figure(f"slow: {path}", "ms", Samples(tuple(warm[path])), part=True) for path in slowest),
        *rows,
        Figure(
            "creating the largest run",
            "s",
            Samples(tuple(_create(console, run) for _ in range(CREATIONS))),
            Peer("limit", Samples((GOAL_CREATE_SECONDS,))),
            GOAL_CREATE_SECONDS,
        ),
    ]


def _find() -> _Large | None:
    from runs import limits
    from runs.models import Run

    run = Run.objects.filter(
        planned=limits.LARGEST_RUN, created_via="make_large_run", status="completed", done__gt=0
    ).first()
    if run is None:
        return None
    return _Large(str(run.pk), run.number, run.planned, run.last_seq, run.spec["tasks"], run.spec["task_set"])


def _make(console: Console) -> None:
    command = [
        sys.executable,
        "manage.py",
        "make_large_run",
        "--workspace",
        console.workspace,
        "--name",
        NAME,
    ]
    subprocess.run(command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def _ask_all(console: Console, run: _Large) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Milliseconds by address: the first time, and each time after."""
    space = f"/w/{console.workspace}"
    pages = [f"{space}/", f"{space}/runs/", *(f"{space}/runs/{run.number}/{path}" for path in PAGES)]
    lists = ["/v1/runs", *(f"/v1/runs/{run.id}{path}" for path in LISTS)]
    cookie, bearer = {"Cookie": console.cookie}, {"Authorization": f"Bearer {console.token}"}
    asked: list[tuple[str, dict[str, str]]] = [(path, cookie) for path in pages]
    asked += [(path, bearer) for path in lists]
    cold: dict[str, float] = {}
    warm: dict[str, list[float]] = {}
    link = http.client.HTTPConnection(urlsplit(console.url).netloc, timeout=ANSWER_SECONDS)
    for round_ in range(WARM_ROUNDS + 1):
        for path, headers in asked:
            _note(path, _ask(link, path, headers), round_, cold, warm)
        _note("the page's stream", asyncio.run(_stream(console, run)), round_, cold, warm)
        _note("first line of events.jsonl", _first_line(console, run), round_, cold, warm)
    link.close()
    return cold, warm


def _note(path: str, taken: float, round_: int, cold: dict[str, float], warm: dict[str, list[float]]) -> None:
    if round_:
        warm.setdefault(path, []).append(taken)
    else:
        cold[path] = taken


def _ask(link: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> float:
    began = time.monotonic()
    link.request("GET", path, headers=headers)
    reply = link.getresponse()
    reply.read()
    taken = time.monotonic() - began
    if reply.status != http.HTTPStatus.OK:
        raise OSError(f"{path} answered {reply.status}")
    return 1000 * taken


async def _stream(console: Console, run: _Large) -> float:
    """From dialling until the stream has said how far the log has come."""
    began = time.monotonic()
    async with asyncio.timeout(ANSWER_SECONDS):
        async with connect(
            f"{console.socket_url}/ws/w/{console.workspace}/runs/{run.number}",
            additional_headers={"Cookie": console.cookie, "Origin": console.url},
            proxy=None,
        ) as page:
            await page.recv()
            return 1000 * (time.monotonic() - began)


def _first_line(console: Console, run: _Large) -> float:
    """From asking for the whole log until its first line is there. The rest is not read."""
    link = http.client.HTTPConnection(urlsplit(console.url).netloc, timeout=ANSWER_SECONDS)
    began = time.monotonic()
    path = f"/w/{console.workspace}/runs/{run.number}/events.jsonl?after={run.events - 5000}"
    link.request("GET", path, headers={"Cookie": console.cookie})
    link.getresponse().readline()
    taken = time.monotonic() - began
    link.close()
    return 1000 * taken


def _create(console: Console, run: _Large) -> float:
    """Seconds of the POST that makes a run of the largest plan; it is cancelled at once."""
    document: dict[str, Any] = {
        "kind": "scripted_test",
        "name": "largest plan",
        "task_set": run.task_set,
        "tasks": run.tasks,
        "template": "basic@1",
        "parallel_copies": 8,
        "fork_copies": 8,
        "prefix_steps": 1,
        "rounds": 50,
        "max_steps": 50,
        "spend_cap_usd": "100000.00",
        "time_cap_minutes": 1440,
    }
    link = http.client.HTTPConnection(urlsplit(console.url).netloc, timeout=ANSWER_SECONDS)
    headers = {"Authorization": f"Bearer {console.token}", "Content-Type": "application/json"}
    began = time.monotonic()
    link.request("POST", "/v1/runs", json.dumps(document), headers)
    reply = link.getresponse()
    text = reply.read()
    taken = time.monotonic() - began
    if reply.status != http.HTTPStatus.CREATED:
        raise OSError(f"the largest run was not created: {reply.status} {text[:300]!r}")
    created = json.loads(text)
    if created["counts"]["planned"] != run.attempts:
        raise OSError(f"it has {created['counts']['planned']} attempts and not {run.attempts}")
    link.request("POST", f"/v1/runs/{created['id']}/cancel", headers=headers)
    link.getresponse().read()
    link.close()
    return taken
