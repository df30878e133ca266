"""What happens to workers and to the way between them and the console: killed, frozen, cut off, out of disk.

Console, supervisor and database stay well. A test looks at what came of the scenario of its name.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from desktops.worker.engine.base import COMPUTER_LABEL, OWNER_LABEL, TEMPLATE_LABEL
from desktops.worker.engine.dial import dial
from desktops.worker.engine.docker import ContainerDesk
from desktops.worker.engine.runc.engine import RuncDesk

from .people import Person, page_of
from .processes import until
from .proxy import Proxy
from .rig import Rig, Worker
from .scenario import END_SECONDS, Played, Scenario

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(1800)]

FROZEN_SECONDS = 60
NOTICED_SECONDS = 60  # a lease is 15; a machine under load takes its time
REAPER_SECONDS = 60


def frozen(rig: Rig) -> Played:
    """Stopped for a minute in the middle of an attempt, which another worker plays meanwhile."""
    lab = rig.lab()
    first = lab.worker("first", slots=1)
    run = lab.run("slow")
    lab.await_playing(run)
    other = lab.worker("other", slots=1)
    first.program.freeze()
    began = time.monotonic()
    lab.await_end(run, END_SECONDS)
    time.sleep(max(0.0, FROZEN_SECONDS - (time.monotonic() - began)))  # as long as it was stopped for
    since = rig.value("SELECT now()")
    first.program.thaw()
    lab.await_worker(first, since)
    until(lambda: first.program.said("stale_epoch"), 30, "the refusal of its late results")
    return Played(lab, run, other=other.name)


def frozen_alone(rig: Rig) -> Played:
    """The same, and nobody else could play: its desktops end by themselves when their paid time is over."""
    lab = rig.lab()
    worker = lab.worker(slots=2)
    run = lab.run("slow", "steady")
    lab.await_playing(run, 2)
    time.sleep(3)  # for the next slice of paid time, which makes it the longest
    worker.program.freeze()
    time.sleep(FROZEN_SECONDS + 1)
    worker.program.thaw()
    return Played(lab, run)


def killed(rig: Rig) -> Played:
    """Killed without a word, and started again as a service manager would."""
    lab = rig.lab()
    worker = lab.worker(warm=True)
    run = lab.run("steady", parallel_copies=2)
    lab.await_playing(run, 2)
    scratch = list((worker.home / "attempts").iterdir())
    worker.program.kill()
    lab.begin(worker)
    left = [path for path in scratch if path.exists()]
    return Played(lab, run, scratch=scratch, left=left)


def cut_off(rig: Rig) -> Played:
    """Nothing passes between worker and console for longer than a lease; nobody else could play."""
    lab = rig.lab()
    with Proxy(rig.port) as way:
        lab.worker(url=way.url)
        run = lab.run("slow", "steady")
        lab.await_playing(run, 2)
        way.cut()
        lab.await_status(run, "recovering", seconds=NOTICED_SECONDS)
        with Person(rig, "member") as reader:
            page = reader.reads(page_of(lab, run))
        time.sleep(3)  # the rest of the cut
        way.mend()
        return Played(lab, run, page=page)


def cut_off_with_a_second_worker(rig: Rig) -> Played:
    """The same, but another worker is free: what was cut off begins anew there, and counts once."""
    lab = rig.lab()
    with Proxy(rig.port) as way:
        lab.worker("first", url=way.url, slots=1)
        run = lab.run("slow")
        lab.await_playing(run)
        lab.worker("other", slots=1)
        way.cut()
        lab.await_status(run, "recovering", seconds=NOTICED_SECONDS)
        time.sleep(3)  # the rest of the cut
        way.mend()
        return Played(lab, run)


def desktop_killed(usual: bool) -> Callable[[Rig], Played]:
    """Its first process is killed. `usual`: the desktop is made as this machine's workers make theirs, which may be
    otherwise than as a container of its engine."""

    def killed(rig: Rig) -> Played:
        lab = rig.lab()
        worker = lab.worker(slots=1, engine=None if usual else rig.containers)
        run = lab.run("steady")
        lab.await_playing(run)
        computer = rig.value("SELECT id FROM desktops_computer WHERE workspace_id = %s", lab.key)
        with worker.engine() as engine:
            desk = engine.find(str(computer))
            assert isinstance(desk, ContainerDesk | RuncDesk)
            os.kill(desk.pid(), signal.SIGKILL)
        return Played(lab, run)

    return killed


def disk_full(rig: Rig) -> Played:
    """The disk under the worker's folder fills while it plays; later somebody makes room."""
    lab = rig.lab()
    home = rig.folder / f"{lab.slug}-disk"
    home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(home)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        worker = lab.worker(home=home, slots=1, engine=rig.containers)
        run = lab.run("slow", "solved")
        lab.await_playing(run)
        filler = home / "filler"
        _fill(filler)
        until(lambda: worker.program.said("is full"), 60, "a full disk")
        until(lambda: lab.tries(run)[0]["ended_at"], 90, "the end of the try")
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
    worker = lab.worker(slots=1, engine=rig.containers)
    run = lab.run("steady")
    lab.await_playing(run)
    worker.program.kill()
    made = _made_by_nobody(rig, worker)
    lab.begin(worker)
    return Played(lab, run, swept=made not in lab.rig.left(lab.owners))


def stray(rig: Rig) -> Played:
    """A container with the worker's mark that it does not know: its reaper looks each minute."""
    lab = rig.lab()
    worker = lab.worker(slots=1, engine=rig.containers)
    made = _made_by_nobody(rig, worker)
    until(lambda: made not in rig.left(lab.owners), REAPER_SECONDS + 30, "the end of a stray container")
    return Played(lab, lab.run("solved"))


def _made_by_nobody(rig: Rig, worker: Worker) -> str:
    """A container that was created with the worker's mark and never started; its id."""
    engine = dial(rig.containers, 60)
    try:
        (image, *_) = engine.api.images(filters={"label": f"{TEMPLATE_LABEL}=basic:1"})
        name = image["Id"].removeprefix("sha256:")
        labels = {OWNER_LABEL: worker.owner, COMPUTER_LABEL: ""}
        return str(engine.api.create_container(name, labels=labels)["Id"])
    finally:
        engine.close()


def receipt(rig: Rig) -> Played:
    """Nothing is done to anybody: the worker goes on after the run, and sweeps."""
    lab = rig.lab()
    lab.worker(slots=1)
    run = lab.run("solved", parallel_copies=2)
    lab.await_end(run, END_SECONDS)
    told: dict[str, Any] = {}

    def is_clean() -> bool:
        told.update(lab.api().get(f"/v1/runs/{run}")["receipt"])
        return bool(told["clean"])

    until(is_clean, REAPER_SECONDS + 30, "a receipt that is clean")
    return Played(lab, run, told=told, left=rig.left(lab.owners))


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


SCENARIOS = {
    "frozen": Scenario(85, frozen),
    "frozen_alone": Scenario(100, frozen_alone),
    "killed": Scenario(30, killed),
    "cut_off": Scenario(55, cut_off),
    "cut_off_with_a_second_worker": Scenario(70, cut_off_with_a_second_worker),
    "desktop_killed": Scenario(25, desktop_killed(usual=True)),
    "container_killed": Scenario(25, desktop_killed(usual=False)),
    "stray": Scenario(75, stray),
    "disk_full": Scenario(70, disk_full),
    "left_over": Scenario(30, left_over),
    "receipt": Scenario(75, receipt),
    "shut_down": Scenario(30, shut_down),
    "same_name": Scenario(25, same_name),
}


def test_frozen(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved
    assert "recovering" in played.statuses
    first, second = played.tries
    assert (first["ok"], first["invalid_reasons"]) == (False, ["worker_lost"])
    assert (second["ok"], second["worker_name"]) == (True, played.seen["other"])


def test_frozen_alone(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved
    assert [row["tries"] for row in played.attempts] == [2, 2]


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
    assert [row["tries"] for row in played.attempts] == [1, 1], played.why
    assert "recovering" in played.statuses
    assert played.statuses[-1] == "completed"
    assert "Recovering" in played.seen["page"]
    assert "one went quiet, last heard at" in played.seen["page"]


def test_cut_off_with_a_second_worker(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved
    assert [row["worker_name"] for row in played.tries] == ["first", "other"]
    assert [row["ok"] for row in played.tries] == [False, True]


def test_desktop_killed(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert [row["ok"] for row in played.tries] == [False, True]
    assert played.why == [["desktop_lost"], []]


def test_container_killed(played: Played) -> None:
    test_desktop_killed(played)


def test_stray(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")


def test_disk_full(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved
    assert played.tries[0]["invalid_reasons"] == ["upload_failed"]


def test_left_over(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.seen["swept"]


def test_receipt(played: Played) -> None:
    told = played.seen["told"]
    assert (told["started"], told["stopped"], told["left"]) == (2, 2, 0)
    assert told["swept_at"]
    assert played.seen["left"] == []


def test_shut_down(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.seen == {"code": 0, "traceback": False}
    assert played.tries[0]["invalid_reasons"] == ["worker_stopped"]


def test_same_name(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert [row["tries"] for row in played.attempts] == [1]
