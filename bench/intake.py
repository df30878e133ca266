"""Events taken in: from a worker's websocket through the console into PostgreSQL, until the page's stream tells them.

A worker double with several hundred desktops says what that many attempts say, all at once, in frames as a worker
sends them and no more of them in flight than a worker has. The clock ends when every record is acknowledged and the
stream of each run's page has told of its last event. What the double sends is written down before the clock starts:
a worker is another machine.

The peer is what AWX's documentation gives for its event intake on four processors (1,100 to 1,630 a second).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from desktops.worker.link import BATCH, UNACKNOWLEDGED

from .console import Console
from .table import Figure, Peer, Row, Samples

GOAL_PER_SECOND = 3_000
AWX_PER_SECOND = 1_630.0
RUNS, DESKTOPS, STEPS = 4, 64, 50
TIMES = 3
PATIENCE_SECONDS = 300.0
SHOT = hashlib.sha256(b"screen").hexdigest()


def measure(console: Console) -> list[Row]:
    rates, parts = [], []
    for time_ in range(TIMES):
        taken, events, acknowledged = asyncio.run(_once(console, time_))
        rates.append(GOAL_PER_SECOND * taken / events)
        parts.append(GOAL_PER_SECOND * acknowledged / events)
    awx = Peer(
        f"AWX's {AWX_PER_SECOND:,.0f} /s on 4 processors", Samples((GOAL_PER_SECOND / AWX_PER_SECOND,))
    )
    best = GOAL_PER_SECOND / Samples(tuple(rates)).median
    return [
        Figure(
            f"3,000 events taken in, stored and shown ({best:,.0f} /s)", "s", Samples(tuple(rates)), awx, 1.0
        ),
        Figure("until they are stored and acknowledged", "s", Samples(tuple(parts)), part=True),
    ]


async def _once(console: Console, time_: int) -> tuple[float, int, float]:
    """Seconds until all was shown, how many events that were, seconds until all was acknowledged."""
    name = f"bench-{time_}"
    link = connect(
        f"{console.socket_url}/ws/worker",
        additional_headers={"Authorization": f"Bearer {console.worker_token}"},
        max_size=4 << 20,
        proxy=None,
    )
    async with link as worker:
        await _hello(worker, name)
        runs = await asyncio.to_thread(_runs, console, name)
        offers = await _offers(worker, RUNS * DESKTOPS)
        frames, records = _frames(offers)
        before = await asyncio.to_thread(_sequences, runs)
        async with asyncio.TaskGroup() as group:
            began = time.monotonic()
            shown = [
                group.create_task(_shown(console, number, seq + records // RUNS))
                for number, seq in before.items()
            ]
            acknowledged = await _say(worker, frames) - began
            ends = [await one for one in shown]
        after = await asyncio.to_thread(_sequences, runs)
        events = sum(after.values()) - sum(before.values())
        return max(ends) - began, events, acknowledged


async def _hello(worker: ClientConnection, name: str) -> None:
    image = {"name": "basic", "version": 1, "digest": f"sha256:{'0' * 64}"}
    hello = {
        "type": "hello",
        "version": "bench",
        "instance": str(uuid.uuid4()),
        "name": name,
        "engine": "fake",
    }
    await worker.send(json.dumps({**hello, "slots": RUNS * DESKTOPS, "images": [image]}))
    welcome = json.loads(await worker.recv())
    if welcome["type"] != "welcome":
        raise OSError(f"the console does not welcome the bench's worker: {welcome}")


def _runs(console: Console, name: str) -> list[int]:
    """Start runs by the verbs everybody uses, and one pass of the supervisor to hand out every attempt."""
    from console.actor import Actor
    from console.models import Workspace
    from runs.actions.create import create_run
    from runs.supervisor import one_pass

    workspace = Workspace.objects.get(slug=console.workspace)
    Workspace.objects.filter(pk=workspace.pk).update(run_parallelism=DESKTOPS)
    workspace.refresh_from_db()
    task = workspace.task_sets.get(name="deskyard-basics", is_current=True).tasks.filter(
        recipe__isnull=False, templates__contains=["basic"]
    )[0]
    document = {
        "kind": "scripted_test",
        "name": name,
        "task_set": "deskyard-basics",
        "tasks": [task.task_id],
        "template": "basic@1",
        "parallel_copies": 8,
        "rounds": DESKTOPS // 8,
        "max_steps": STEPS,
        "spend_cap_usd": "100.00",
    }
    actor = Actor.system("the bench")
    runs = [create_run(workspace=workspace, document=document, actor=actor).number for _ in range(RUNS)]
    one_pass()
    return runs


def _sequences(runs: Sequence[int]) -> dict[int, int]:
    from runs.models import Run

    return dict(Run.objects.filter(number__in=runs).order_by("number").values_list("number", "last_seq"))


async def _offers(worker: ClientConnection, count: int) -> list[dict[str, Any]]:
    """All assignments, named in a heartbeat as a worker does: held from then on."""
    offers: dict[str, dict[str, Any]] = {}
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(offers) < count:
            message = json.loads(await worker.recv())
            if message["type"] == "offer":
                offers[message["assignment"]] = message
    held = [{"assignment": key, "epoch": offer["epoch"]} for key, offer in offers.items()]
    await worker.send(json.dumps({"type": "heartbeat", "held": held}))
    return list(offers.values())


def _frames(offers: Sequence[dict[str, Any]]) -> tuple[list[tuple[int, str]], int]:
    """(last number, frame) of all that these attempts say, all of them side by side; and how many records it is."""
    lives = [[(offer, record) for record in _life()] for offer in offers]
    items = [
        {"number": number, "assignment": offer["assignment"], "epoch": offer["epoch"], "record": record}
        for number, (offer, record) in enumerate(
            (said for moment in zip(*lives, strict=True) for said in moment), 1
        )
    ]
    batches = [items[at : at + BATCH] for at in range(0, len(items), BATCH)]
    return [(batch[-1]["number"], json.dumps({"type": "report", "items": batch})) for batch in batches], len(
        items
    )


def _life() -> list[dict[str, Any]]:
    computer = str(uuid.uuid4())
    click = {"action": "click", "x": 960, "y": 540, "note": "The button that says what the task asks for."}
    times = {"policy_ms": 812.5, "act_ms": 3.1, "settle_ms": 42.7, "grab_ms": 8.9, "settled": True}
    evidence = {
        "label": "file",
        "metric": "exact_match",
        "getter": "vm_file",
        "found": "a",
        "expected": "a",
        "reward": 1,
    }
    records: list[dict[str, Any]] = [
        {"kind": "computer_started", "computer": computer, "engine": "fake"},
        {"kind": "computer_ready", "computer": computer, "seconds": 0.4},
        {"kind": "setup_done", "seconds": 0.2, "steps": 1, "screenshot": SHOT},
        *(
            {"kind": "step", "number": n, "action": click, "screenshot": SHOT, "active_window": "Files", **times}
            for n in range(1, STEPS + 1)
        ),
        {"kind": "verifying"},
        {"kind": "verdict", "reward": 1.0, "evidence": [evidence], "checker": "osworld@v1", "checker_digest": "",
         "seconds": 0.1, "screenshot": SHOT},
        {"kind": "computer_stopped", "computer": computer, "reason": "the attempt ended"},
        {"kind": "attempt_ended", "ok": True, "steps": STEPS},
    ]  # fmt: skip
    now = datetime.now(UTC).isoformat()
    return [{"at": now, **record} for record in records]


async def _say(worker: ClientConnection, frames: Sequence[tuple[int, str]]) -> float:
    """Send all of it, with as much in flight as a worker has; when the last was acknowledged."""
    applied, last = 0, frames[-1][0]
    waiting = list(reversed(frames))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while applied < last:
            while waiting and waiting[-1][0] - applied <= UNACKNOWLEDGED:
                await worker.send(waiting.pop()[1])
            message = json.loads(await worker.recv())
            if message["type"] == "acknowledge":
                applied = message["applied"]
            elif message["type"] == "refused":
                raise OSError(f"the console refuses what the bench says: {message}")
    return time.monotonic()


async def _shown(console: Console, number: int, last: int) -> float:
    """When the stream of the run's page told of the event `last`."""
    stream = connect(
        f"{console.socket_url}/ws/w/{console.workspace}/runs/{number}?after=0",
        additional_headers={"Cookie": console.cookie, "Origin": console.url},
        proxy=None,
    )
    async with asyncio.timeout(PATIENCE_SECONDS), stream as page:
        while json.loads(await page.recv())["seq"] < last:
            pass
    return time.monotonic()
