"""The spool keeps what was recorded, in order, whatever happens to the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from desktops.worker.spool import RecordTooLarge, Spool, SpoolBusy, SpoolFull

PAID = datetime(2030, 1, 1, tzinfo=UTC)

WRITER = """
import sys
from pathlib import Path
from desktops.worker.spool import Spool
spool = Spool(Path(sys.argv[1]))
while True:
    print(spool.append("a", 1, {"kind": "step", "x": "y" * 100}), flush=True)
"""


@pytest.fixture
def spool(tmp_path):
    spool = Spool(tmp_path / "spool", ballast=0)
    yield spool
    spool.close()


def reopened(spool: Spool, tmp_path: Path) -> Spool:
    spool.close()
    return Spool(tmp_path / "spool", ballast=0)


def fill(spool: Spool) -> None:
    for _ in range(100):
        spool.append("a", 1, {"kind": "step", "x": "y" * 2000})


def test_numbers_rise_without_a_gap_also_after_everything_was_forgotten(spool, tmp_path):
    assert [spool.append("a", 1, {"kind": "x"}) for _ in range(3)] == [1, 2, 3]
    spool.acknowledge(3)
    again = reopened(spool, tmp_path)
    assert again.append("a", 1, {"kind": "x"}) == 4
    assert [item.number for item in again.after(0, limit=10)] == [4]
    again.close()


def test_the_instance_stays_over_a_restart(spool, tmp_path):
    before = spool.instance
    again = reopened(spool, tmp_path)
    assert again.instance == before
    again.close()


def test_every_record_given_a_number_is_there_after_a_kill(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, tmp_path / "s"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    seen = [int(process.stdout.readline()) for _ in range(50)]
    os.kill(process.pid, signal.SIGKILL)
    seen += [int(line) for line in process.stdout.read().splitlines()]
    process.stdout.close()
    process.wait()
    spool = Spool(tmp_path / "s")
    numbers = [item.number for item in spool.after(0, limit=100_000)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers[-1] >= seen[-1]
    spool.close()


def test_two_workers_cannot_share_a_spool(spool, tmp_path):
    with pytest.raises(SpoolBusy, match="DESKYARD_WORKER_HOME"):
        Spool(tmp_path / "spool", ballast=0)


def test_an_acknowledgement_frees_only_blobs_that_nothing_else_names(spool):
    spool.append("a", 1, {"kind": "x"}, blobs=["b1", "b2"])
    spool.append("a", 1, {"kind": "x"}, blobs=["b2", "b3"])
    assert spool.acknowledge(1) == {"b1"}
    assert spool.named_blobs() == {"b2", "b3"}
    assert spool.acknowledge(1) == set()
    assert spool.acknowledge(99) == {"b2", "b3"}
    assert spool.acknowledged == 2


def test_a_record_that_fits_no_frame_is_refused(spool):
    with pytest.raises(RecordTooLarge):
        spool.append("a", 1, {"kind": "verdict", "x": "y" * (1 << 20)})
    assert spool.append("a", 1, {"kind": "x"}) == 1


def test_an_assignment_is_taken_once_an_epoch_also_after_a_restart(spool, tmp_path):
    assert spool.take("a", 2, "attempt", PAID)
    assert not spool.take("a", 2, "attempt", PAID)
    assert not spool.take("a", 1, "attempt", PAID)
    again = reopened(spool, tmp_path)
    assert not again.take("a", 2, "attempt", PAID)
    assert again.take("a", 3, "attempt", PAID)
    again.close()


def test_an_assignment_is_held_until_its_last_record_is_acknowledged(spool):
    spool.take("a", 1, "attempt", PAID)
    number = spool.append("a", 1, {"kind": "attempt_ended"}, last=True)
    assert [(item.assignment, item.ended) for item in spool.taken()] == [("a", number)]
    spool.acknowledge(number)
    assert spool.taken() == []


def test_a_computer_is_open_from_started_to_stopped(spool):
    spool.append("a", 1, {"kind": "computer_started"}, computer=("c", True))
    assert spool.computers("a", 1) == ["c"]
    spool.append("a", 1, {"kind": "computer_stopped"}, computer=("c", False))
    assert spool.computers("a", 1) == []


def test_a_renewed_spool_numbers_what_is_left_from_one(spool):
    before = spool.instance
    for _ in range(4):
        spool.append("a", 1, {"kind": "x"})
    spool.take("a", 1, "attempt", PAID)
    spool.append("a", 1, {"kind": "attempt_ended"}, last=True)
    spool.acknowledge(3)
    assert not spool.fits(0)
    spool.renew()
    assert spool.instance != before
    assert spool.fits(0)
    assert [item.number for item in spool.after(0, limit=9)] == [1, 2]
    assert [item.ended for item in spool.taken()] == [2]
    assert spool.append("a", 1, {"kind": "x"}) == 3


def test_a_full_disk_is_said_plainly_and_leaves_room_for_the_ending(tmp_path):
    spool = Spool(tmp_path / "spool", ballast=4096)
    # A page limit gives exactly what a full file system gives SQLite: SQLITE_FULL.
    spool._db.execute("PRAGMA max_page_count = 12")
    with pytest.raises(SpoolFull, match="is full; reserved space was freed"):
        fill(spool)
    assert not (tmp_path / "spool" / "ballast").exists()
    spool._db.execute("PRAGMA max_page_count = 1000")
    last = spool.append("a", 1, {"kind": "attempt_ended"})
    assert [item.number for item in spool.after(0, limit=100)] == list(range(1, last + 1))
    spool.acknowledge(last)
    assert (tmp_path / "spool" / "ballast").exists()
    spool.close()
