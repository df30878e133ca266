"""What happens to workers and to the way between them and the console: killed, frozen, cut off, out of disk.

Side by side, each in a lab of its own; the console, the supervisor and the database stay well.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import docker
import pytest

from desktops.worker.engine.base import COMPUTER_LABEL, OWNER_LABEL

from .conftest import Begin
from .invariants import check
from .processes import until
from .proxy import Proxy
from .rig import Lab, Rig, Worker

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(400)]

SECONDS = 300
FROZEN_SECONDS = 60
CUT_SECONDS = 20


class Played:
    """A scenario's lab and run, after its end and with the invariants checked."""

    def __init__(self, lab: Lab, run: str, **seen: Any) -> None:
        self.lab, self.run, self.seen = lab, run, seen
        self.end = lab.await_end(run, SECONDS)
        for worker in lab.workers:
            worker.program.end()
        self.attempts = lab.attempts(run)
        self.tries = lab.tries(run)
        self.statuses = lab.statuses(run)
        check(lab)

    @property
    def all_solved(self) -> bool:
        return {(row["status"], row["outcome"]) for row in self.attempts} == {("done", "success")}


def frozen(rig: Rig) -> Played:
    """Stopped for a minute in the middle of an attempt, which another worker plays meanwhile."""
    lab = rig.lab()
    first = lab.worker("first", slots=1)
    run = lab.run("steady")
    lab.await_playing(run)
    other = lab.worker("other", slots=1)
    first.program.freeze()
    began = time.monotonic()
    lab.await_end(run, SECONDS)
    time.sleep(max(0.0, FROZEN_SECONDS - (time.monotonic() - began)))  # as long as it was stopped for
    since = rig.value("SELECT now()")
    first.program.thaw()
    lab.await_worker(first, since)
    until(lambda: first.program.said("stale_epoch"), 30, "the refusal of its late results")
    return Played(lab, run, other=other.name)


def killed(rig: Rig) -> Played:
    """Killed without a word, and started again as a service manager would."""
    lab = rig.lab()
    worker = lab.worker()
    run = lab.run("steady", parallel_copies=2)
    lab.await_playing(run, 2)
    scratch = list((worker.home / "attempts").iterdir())
    worker.program.kill()
    lab.begin(worker)
    left = [path for path in scratch if path.exists()]
    return Played(lab, run, scratch=scratch, left=left)


def cut_off(rig: Rig) -> Played:
    """Nothing passes between worker and console for 20 seconds, longer than a lease; nobody else could play."""
    lab = rig.lab()
    with Proxy(rig.port) as way:
        lab.worker(url=way.url)
        run = lab.run("slow", "steady")
        lab.await_playing(run, 2)
        way.cut()
        lab.await_status(run, "recovering", seconds=CUT_SECONDS)
        time.sleep(3)  # the rest of the cut
        way.mend()
        return Played(lab, run)


def cut_off_with_a_second_worker(rig: Rig) -> Played:
    """The same, but another worker is free: what was cut off begins anew there, and counts once."""
    lab = rig.lab()
    with Proxy(rig.port) as way:
        lab.worker("first", url=way.url, slots=1)
        run = lab.run("slow")
        lab.await_playing(run)
        lab.worker("other", slots=1)
        way.cut()
        lab.await_status(run, "recovering", seconds=CUT_SECONDS)
        time.sleep(3)  # the rest of the cut
        way.mend()
        return Played(lab, run)


def container_killed(rig: Rig) -> Played:
    lab = rig.lab()
    worker = lab.worker(slots=1)
    run = lab.run("steady")
    lab.await_playing(run)
    engine = docker.DockerClient(base_url=rig.engine, version="auto")
    try:
        (box,) = engine.api.containers(filters={"label": f"{OWNER_LABEL}={worker.owner}"})
        engine.api.kill(box["Id"])
    finally:
        engine.close()
    return Played(lab, run)


def disk_full(rig: Rig) -> Played:
    """The disk under the worker's folder fills while it plays; later somebody makes room."""
    lab = rig.lab()
    home = rig.folder / f"{lab.slug}-disk"
    home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(home)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        worker = lab.worker(home=home, slots=1)
        run = lab.run("steady", "solved")
        lab.await_playing(run)
        filler = home / "filler"
        _fill(filler)
        until(lambda: worker.program.said("is full"), 60, "a full disk")
        until(lambda: lab.tries(run)[0]["ended_at"], 60, "the end of the try")
        filler.unlink()
        played = Played(lab, run)
        shutil.copy(home / "owner", rig.folder / f"{lab.slug}-owner")
        return played
    finally:
        subprocess.run(["umount", "--lazy", str(home)], capture_output=True, check=True)


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        size = 1 << 20
        while size:
            try:
                file.write(bytes(size))
            except OSError:
                size //= 2


def left_over(rig: Rig) -> Played:
    """A worker that is started finds what an earlier one left: running, and made but never started."""
    lab = rig.lab()
    worker = lab.worker(slots=1)
    run = lab.run("steady")
    lab.await_playing(run)
    worker.program.kill()
    engine = docker.DockerClient(base_url=rig.engine, version="auto")
    try:
        (box,) = engine.api.containers(filters={"label": f"{OWNER_LABEL}={worker.owner}"})
        labels = {OWNER_LABEL: worker.owner, COMPUTER_LABEL: ""}
        made = engine.api.create_container(box["ImageID"].removeprefix("sha256:"), labels=labels)
        lab.begin(worker)
        left = engine.api.containers(all=True, filters={"label": f"{OWNER_LABEL}={worker.owner}"})
        ids = {one["Id"] for one in left}
        return Played(lab, run, swept={box["Id"], made["Id"]}.isdisjoint(ids))
    finally:
        engine.close()


def shut_down(rig: Rig) -> Played:
    """Ended in order in the middle of an attempt, as by Ctrl-C, and started again."""
    lab = rig.lab()
    worker = lab.worker(slots=1)
    run = lab.run("steady")
    lab.await_playing(run)
    code = worker.program.end()
    lab.begin(worker)
    return Played(lab, run, code=code, traceback=worker.program.said("Traceback"))


def same_name(rig: Rig) -> Played:
    """A second worker with the same name and token, but a data folder of its own."""
    lab = rig.lab()
    lab.worker("twin", slots=1)
    run = lab.run("steady")
    lab.await_playing(run)
    second: Worker = lab.worker("twin", start=False)
    second.program.start()
    until(lambda: second.program.said("DESKYARD_WORKER_NAME of its own"), 30, "the refusal")
    second.program.end()
    return Played(lab, run)


SCENARIOS: dict[str, Callable[[Rig], Played]] = {
    "frozen": frozen,
    "cut_off": cut_off,
    "cut_off_with_a_second_worker": cut_off_with_a_second_worker,
    "disk_full": disk_full,
    "killed": killed,
    "container_killed": container_killed,
    "left_over": left_over,
    "shut_down": shut_down,
    "same_name": same_name,
}


@pytest.fixture(scope="module")
def playing(begin: Begin, request: pytest.FixtureRequest) -> dict[str, Future[Played]]:
    """Those that a chosen test asks for, the longest first."""
    chosen = {item.name.removeprefix("test_") for item in request.session.items}
    return {name: begin(scenario) for name, scenario in SCENARIOS.items() if name in chosen}


@pytest.fixture
def played(playing: dict[str, Future[Played]], request: pytest.FixtureRequest) -> Played:
    """What came of the scenario of the test's own name."""
    return playing[request.node.name.removeprefix("test_")].result(SECONDS)


def test_frozen(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved
    assert "recovering" in played.statuses
    first, second = played.tries
    assert (first["ok"], first["invalid_reasons"]) == (False, ["worker_lost"])
    assert (second["ok"], second["worker_name"]) == (True, played.seen["other"])


def test_killed(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved
    assert [row["tries"] for row in played.attempts] == [2, 2]
    assert played.tries[0]["invalid_reasons"] == ["worker_stopped"]
    assert len(played.seen["scratch"]) == 2
    assert played.seen["left"] == []


def test_cut_off(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved
    assert [row["tries"] for row in played.attempts] == [1, 1]
    assert "recovering" in played.statuses
    assert played.statuses[-1] == "completed"


def test_cut_off_with_a_second_worker(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved
    assert [row["worker_name"] for row in played.tries] == ["first", "other"]
    assert [row["ok"] for row in played.tries] == [False, True]


def test_container_killed(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert [(row["ok"], row["invalid_reasons"]) for row in played.tries] == [
        (False, ["desktop_lost"]),
        (True, []),
    ]


def test_disk_full(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved
    assert played.tries[0]["invalid_reasons"] == ["upload_failed"]


def test_left_over(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.seen["swept"]


def test_shut_down(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.seen == {"code": 0, "traceback": False}
    assert played.tries[0]["invalid_reasons"] == ["worker_stopped"]


def test_same_name(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert [row["tries"] for row in played.attempts] == [1]
