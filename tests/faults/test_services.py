"""What happens to the services under a run: console, supervisor, database and engine, one after another."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from console.embedded.processes import ending_with_parent
from desktops.worker.engine.choose import RUNC
from desktops.worker.engine.podman import PodmanService
from runs.supervisor import LEADER_LOCK

from .invariants import check
from .processes import until
from .rig import Lab, Rig, Worker

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(300)]

LONGER_THAN_A_LEASE = 18


@pytest.fixture(scope="module")
def lab(rig: Rig) -> Lab:
    """With a worker of two slots."""
    made = rig.lab()
    made.worker()
    return made


def solved_at_once(lab: Lab, run: str) -> None:
    """Every attempt has its verdict by its first try, and everything adds up."""
    assert lab.await_end(run, 120) == ("completed", "all_tasks_done")
    tries = lab.tries(run)
    assert [row["ok"] for row in tries] == [True] * len(lab.attempts(run)), tries
    check(lab)


def test_a_console_that_is_killed_and_comes_back_loses_and_doubles_nothing(rig: Rig, lab: Lab) -> None:
    run = lab.run("steady", parallel_copies=2)
    lab.await_playing(run, 2)
    rig.console.kill()
    rig.start_console()
    solved_at_once(lab, run)


def test_while_no_console_listens_no_worker_is_called_lost(rig: Rig, lab: Lab) -> None:
    run = lab.run("slow", "steady")
    lab.await_playing(run, 2)
    rig.console.kill()
    time.sleep(LONGER_THAN_A_LEASE)
    assert lab.status(run) == "running"
    rig.start_console()
    solved_at_once(lab, run)


def _leads(rig: Rig) -> int | None:
    """The database session that holds the leader's lock."""
    query = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND classid = 0 AND granted"
    return rig.value(query, LEADER_LOCK)  # type: ignore[no-any-return]


def test_a_spare_supervisor_goes_on_where_the_leader_was_killed(rig: Rig, lab: Lab) -> None:
    spare = rig.new_supervisor("spare")
    spare.start()
    run = lab.run("solved", parallel_copies=4, rounds=2)
    leader, next_one = rig.supervisor, spare
    for ended in (1, 3, 5):
        until(
            lambda wanted=ended: (  # type: ignore[misc]
                rig.value("SELECT done FROM runs_run WHERE id = %s", run) >= wanted
                or lab.status(run) == "completed"
            ),
            60,
            f"{ended} attempts",
        )
        held = _leads(rig)
        leader.kill()
        # The other goes on by itself: nobody is started before it leads.
        until(lambda held=held: _leads(rig) not in (None, held), 30, "the spare's lead")  # type: ignore[misc]
        leader.start()  # it waits behind the other now
        leader, next_one = next_one, leader
    rig.supervisor = leader
    solved_at_once(lab, run)
    next_one.end()


def test_a_spare_supervisor_goes_on_where_the_leader_was_killed_in_the_middle_of_a_pass(
    rig: Rig, lab: Lab
) -> None:
    """It is held up inside of a transaction, by somebody who holds the money, and killed there."""
    leader, spare = rig.supervisor, rig.new_supervisor("second")
    spare.start()
    held = until(lambda: _leads(rig), 30, "a leader")
    with psycopg.connect(rig.postgres.url) as money:
        money.execute(
            "SELECT 1 FROM console_budget WHERE workspace_id = %s AND parent_id IS NULL FOR NO KEY UPDATE",
            [lab.key],
        )
        run = lab.run("solved", parallel_copies=2)
        waits = (
            "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"
            " AND backend_xid IS NOT NULL"
        )
        until(lambda: rig.value(waits, held), 60, "a supervisor that waits within its pass")
        leader.kill()
    until(lambda: _leads(rig) not in (None, held), 30, "the spare's lead")
    rig.supervisor = spare
    solved_at_once(lab, run)


def test_a_spare_supervisor_goes_on_where_the_leader_stands_still(rig: Rig, lab: Lab) -> None:
    leader, spare = rig.supervisor, rig.new_supervisor("stand-in")
    spare.start()
    run = lab.run("solved", parallel_copies=4, rounds=2)
    until(lambda: rig.value("SELECT done FROM runs_run WHERE id = %s", run), 60, "the first attempts")
    first = _leads(rig)
    leader.freeze()
    try:
        second = until(lambda: _leads(rig) not in (None, first) and _leads(rig), 30, "the spare's lead")
        solved_at_once(lab, run)
    finally:
        leader.thaw()
    # What woke up knows that it leads no more, and goes on as a spare.
    assert spare.end() == 0
    until(lambda: _leads(rig) not in (None, first, second), 30, "the first one's new lead")
    solved_at_once(lab, lab.run("solved"))


def test_a_database_that_is_restarted_at_once_loses_nothing(rig: Rig, lab: Lab) -> None:
    run = lab.run("steady", parallel_copies=2)
    lab.await_playing(run, 2)
    server = rig.postgres
    assert server.pid is not None
    subprocess.run(["kill", f"-{signal.SIGQUIT}", str(server.pid)], check=True)  # its immediate shutdown
    until(server.died, 20, "the end of the database")
    server.restart()
    solved_at_once(lab, run)


class OwnService:
    """Another API service of the machine's Podman: the same containers, and nobody else is in its way."""

    def __init__(self, engine: str, folder: Path) -> None:
        home = Path(engine.removeprefix("unix://")).parent
        if not (home / "containers.conf").exists():
            pytest.skip("this engine is not a Podman of our own, whose service may be restarted")
        self._environment = PodmanService(home).environment
        self._socket = folder / "engine.sock"
        self.url = f"unix://{self._socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._socket.unlink(missing_ok=True)
        command = ["podman", "system", "service", "--time", "0", self.url]
        self._process = subprocess.Popen(
            ending_with_parent(signal.SIGKILL, command),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(self._socket.exists, 20, "the engine's socket")

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@pytest.fixture
def service(rig: Rig) -> Iterator[OwnService]:
    own = OwnService(rig.containers, rig.folder)
    own.start()
    yield own
    own.kill()


def test_an_engine_whose_service_is_restarted_keeps_its_desktops(rig: Rig, service: OwnService) -> None:
    lab = rig.lab()
    worker: Worker = lab.worker(engine=service.url, slots=1)
    run = lab.run("steady", "solved")
    lab.await_playing(run)
    service.kill()
    # The desktop plays on; that it cannot be removed yet is waited out.
    until(lambda: worker.program.said("cannot be removed, trying again"), 60, "a removal that waits")
    service.start()
    solved_at_once(lab, run)
    worker.program.end()


def test_desktops_that_are_no_containers_play_on_while_the_engine_with_their_images_is_away(
    rig: Rig, service: OwnService
) -> None:
    if not rig.engine.startswith(RUNC):
        pytest.skip("all desktops are containers here")
    lab = rig.lab()
    worker: Worker = lab.worker(engine=rig.engine.replace(rig.containers, service.url), slots=1)
    run = lab.run("steady", parallel_copies=2)
    lab.await_playing(run)
    service.kill()
    # The one that plays is judged and removed, and the next one is made, of layers that are there.
    lab.await_playing(run, 2)
    assert rig.value("SELECT done FROM runs_run WHERE id = %s", run) == 1
    service.start()
    solved_at_once(lab, run)
    worker.program.end()
