"""Attempts that are forked from a live desktop, and what happens to their worker meanwhile.

A test looks at what came of the scenario of its name.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from desktops.worker.engine.choose import RUNC

from .invariants import nothing_is_left
from .processes import until
from .rig import TERMINAL, Lab, Rig, Worker
from .scenario import Played, Scenario

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(1800)]

MOMENT_SECONDS = 0.002  # between two looks for what lasts for tenths of a second
LOOKS = 100  # before it is asked whether the run goes on
RUNS = 5


def forks(rig: Rig) -> Played:
    lab = able_lab(rig)
    lab.worker(slots=4)
    run = lab.run("calc", template="office@1", prefix_steps=3, fork_copies=4)
    return whole(lab, run)


def killed_while_saving(rig: Rig) -> Played:
    """As a power cut, and started again."""
    lab = able_lab(rig)
    worker = lab.worker(warm=True)
    run = seized(lab, lambda _: states(worker).glob("prefix-*.new/images/*.img"))
    worker.program.kill()
    unfinished = left(worker)
    lab.begin(worker)
    return whole(lab, run, unfinished=unfinished)


def killed_while_restoring(rig: Rig) -> Played:
    lab = able_lab(rig)
    worker = lab.worker(warm=True)
    boxes = worker.home / "desktops" / "boxes"
    run = seized(
        lab, lambda run: boxes.glob("*/work-criu/*") if prefix(lab, run)["status"] == "saved" else ()
    )
    worker.program.kill()
    lab.begin(worker)
    return whole(lab, run)


def disk_full_while_saving(rig: Rig) -> Played:
    """The disk under the worker's folder is full for as long as its first try lasts."""
    lab = able_lab(rig)
    home = rig.folder / f"{lab.slug}-disk"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8g", "tmpfs", str(home)], check=True)
    try:
        worker = lab.worker(home=home)
        run = seized(lab, lambda _: states(worker).glob("prefix-*.new/images/*.img"))
        resize(home, room=4 << 20)
        until(lambda: prefix_tries(lab, run)[0]["ended_at"], 120, "the end of the try")
        unfinished = left(worker)
        resize(home, room=7 << 30)
        return whole(lab, run, unfinished=unfinished)
    finally:
        subprocess.run(["umount", "--lazy", str(home)], check=True)


def changed_after_saving(rig: Rig) -> Played:
    """A file comes into what was saved before anything starts from it, as on a disk that two workers share."""
    lab = able_lab(rig)
    worker = lab.worker()
    run = lab.run("said", prefix_steps=2, fork_copies=2)
    until(lambda: prefix(lab, run)["status"] == "running", 120, "a prefix that is played")
    pause(lab, True)
    until(lambda: prefix(lab, run)["status"] == "saved", 120, "a saved prefix")
    (saved,) = states(worker).glob("prefix-*")
    (saved / "upper" / "home" / "user" / "strange").write_text("from elsewhere")
    pause(lab, False)
    return whole(lab, run)


def killed_with_one_ready(rig: Rig) -> dict[str, Any]:
    """A desktop that nobody has asked for yet stands there when its worker is killed."""
    lab = able_lab(rig)
    worker = lab.worker(slots=1, warm=True, ready=1)
    first = lab.await_end(lab.run("steady"), 300)
    stands = "SELECT ready_desktops FROM desktops_worker WHERE workspace_id = %s"
    until(lambda: rig.value(stands, lab.key), 120, "a desktop that stands ready")
    assert len(rig.left(lab.owners)) == 1
    known = rig.rows(
        "SELECT id FROM desktops_computer WHERE workspace_id = %s AND stopped_at IS NULL", lab.key
    )
    worker.program.kill()
    until(lambda: not rig.left(lab.owners), 60, "its end")
    lab.begin(worker)
    second = lab.await_end(lab.run("steady"), 300)
    worker.program.end()
    nothing_is_left(lab)
    return {"ends": [first, second], "known": known}


def on_an_engine_that_saves_nothing(rig: Rig) -> Played:
    lab = rig.lab()
    lab.worker(engine=rig.containers)
    run = lab.run("said", prefix_steps=2, fork_copies=2)
    return Played(lab, run)


def pause(lab: Lab, paused: bool) -> None:
    """Its workers are offered nothing meanwhile, and go on with what they have."""
    lab.rig.write("UPDATE desktops_worker SET paused = %s WHERE workspace_id = %s", paused, lab.key)


def able_lab(rig: Rig) -> Lab:
    if not rig.engine.startswith(RUNC):
        pytest.skip("live desktops cannot be saved on this machine")
    return rig.lab()


def whole(lab: Lab, run: str, **seen: Any) -> Played:
    """Once it has ended and what was saved for it is gone."""
    (worker,) = lab.workers
    lab.await_end(run, 300)
    until(lambda: left(worker) == [], 60, "the end of what was saved")
    return Played(lab, run, **seen)


def states(worker: Worker) -> Path:
    return worker.home / "desktops" / "states"


def left(worker: Worker) -> list[str]:
    """What is saved, or was begun to be, but what the worker keeps for later attempts."""
    return [path.name for path in states(worker).iterdir() if not path.name.startswith(("warm-", "setup-"))]


def seized(lab: Lab, moment: Callable[[str], Iterable[Path]]) -> str:
    """A run that was caught in the moment, when there are such files. It is short, and on a busy machine may be
    missed: a run that has ended without is followed by another."""
    for _ in range(RUNS):
        run = lab.run("said", prefix_steps=2, fork_copies=2)
        while lab.status(run) not in TERMINAL:
            for _ in range(LOOKS):
                if any(moment(run)):
                    return run
                time.sleep(MOMENT_SECONDS)
    raise AssertionError(f"the moment did not come in {RUNS} runs")


def resize(home: Path, *, room: int) -> None:
    size = f"remount,size={shutil.disk_usage(home).used + room}"
    subprocess.run(["mount", "-o", size, str(home)], check=True)


def prefix(lab: Lab, run: str) -> dict[str, Any]:
    rows = lab.rig.rows("SELECT * FROM runs_prefix WHERE run_id = %s", run)
    return rows[0] if rows else {"status": ""}


def prefix_tries(lab: Lab, run: str) -> list[dict[str, Any]]:
    return lab.rig.rows(
        "SELECT t.* FROM runs_prefixtry t JOIN runs_prefix p ON p.id = t.prefix_id"
        " WHERE p.run_id = %s ORDER BY t.number",
        run,
    )


SCENARIOS = {
    "forks": Scenario(60, forks, "office"),
    "killed_while_saving": Scenario(45, killed_while_saving),
    "killed_while_restoring": Scenario(45, killed_while_restoring),
    "disk_full_while_saving": Scenario(60, disk_full_while_saving),
    "changed_after_saving": Scenario(60, changed_after_saving),
    "killed_with_one_ready": Scenario(60, killed_with_one_ready),
    "on_an_engine_that_saves_nothing": Scenario(45, on_an_engine_that_saves_nothing),
}


def test_forks(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved, played.why
    assert [(row["fork_method"], row["tries"]) for row in played.attempts] == [("live", 1)] * 4
    assert [row["ok"] for row in prefix_tries(played.lab, played.run)] == [True]
    (once,) = paid(played, "runs_prefixtry")
    each = paid(played, "runs_attempttry")
    assert len(each) == 4
    assert spent(played) == once + sum(each)


def spent(played: Played) -> Decimal:
    found: Decimal = played.lab.rig.value(
        "SELECT spent FROM console_budget b JOIN runs_run r ON r.budget_id = b.id WHERE r.id = %s", played.run
    )
    return found


def paid(played: Played, tries: str) -> list[Decimal]:
    """What the desktop of each of these tries has cost."""
    rows = played.lab.rig.rows(
        f"SELECT l.cost FROM console_ledgerentry l JOIN {tries} t ON t.computer_id = l.subject"  # noqa: S608
        " WHERE l.workspace_id = %s",
        played.lab.key,
    )
    return [row["cost"] for row in rows]


def test_killed_while_saving(played: Played) -> None:
    saved_at_the_second_try(played, ["worker_stopped"])
    assert [name.endswith(".new") for name in played.seen["unfinished"]] == [True]


def test_disk_full_while_saving(played: Played) -> None:
    saved_at_the_second_try(played, ["worker_fault"])
    assert played.seen["unfinished"] == []


def saved_at_the_second_try(played: Played, why: list[str]) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved, played.why
    assert [row["fork_method"] for row in played.attempts] == ["live"] * 2
    tries = prefix_tries(played.lab, played.run)
    assert [(row["ok"], row["invalid_reasons"]) for row in tries] == [(False, why), (True, [])]


def test_killed_while_restoring(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved, played.why
    assert [row["fork_method"] for row in played.attempts] == ["live"] * 2
    assert [row["ok"] for row in prefix_tries(played.lab, played.run)] == [True]
    assert ["worker_stopped"] in played.why
    assert {reason for reasons in played.why for reason in reasons} == {"worker_stopped"}


def test_changed_after_saving(played: Played) -> None:
    """Each copy is tried again, and none has a verdict."""
    assert played.end == ("completed", "all_tasks_done")
    assert played.columns == [("done", "invalid", None)] * 2
    assert played.why == [["fork_mismatch"]] * 6
    assert [(row["fork_method"], row["tries"]) for row in played.attempts] == [("live", 3)] * 2
    told = played.lab.rig.rows(
        "SELECT data->'differences' AS differences FROM runs_event WHERE run_id = %s AND kind = 'forked'",
        played.run,
    )
    differs = "files: names or contents under /home/user differ"
    assert [row["differences"] for row in told] == [[differs]] * 6


def test_killed_with_one_ready(played: dict[str, Any]) -> None:
    assert played == {"ends": [("completed", "all_tasks_done")] * 2, "known": []}


def test_on_an_engine_that_saves_nothing(played: Played) -> None:
    """Each attempt plays the prefix on a desktop of its own, says so, and pays for it."""
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved, played.why
    assert [(row["fork_method"], row["tries"]) for row in played.attempts] == [("replay", 1)] * 2
    assert prefix(played.lab, played.run) == {"status": ""}
    steps = played.lab.rig.rows(
        "SELECT array_agg(s.prefix ORDER BY s.number) AS prefix FROM runs_step s"
        " JOIN runs_attempttry t ON t.id = s.attempt_try_id JOIN runs_attempt a ON a.id = t.attempt_id"
        " WHERE a.run_id = %s GROUP BY a.id",
        played.run,
    )
    assert [row["prefix"] for row in steps] == [[True, True, False, False, False]] * 2
    each = paid(played, "runs_attempttry")
    assert len(each) == 2
    assert spent(played) == sum(each)
