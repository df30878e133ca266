"""What a desktop may write: no more than was said, and never all that the machine has left."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from desktops.worker.engine.runc import leftovers
from desktops.worker.engine.runc.disks import Disks

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts anything")
MIB = 1 << 20


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "box"
    folder.mkdir()
    yield folder
    leftovers.unmount_below(folder)


def size_mb(disk: Path) -> int:
    told = os.statvfs(disk)
    return told.f_blocks * told.f_frsize // MIB


def test_a_disk_holds_what_was_said_and_takes_what_is_written(tmp_path: Path, box: Path) -> None:
    disk = Disks(tmp_path, 128).attach(box)
    assert 100 < size_mb(disk) <= 128
    file = box / "disk.img"
    assert file.stat().st_blocks * 512 < 2 * MIB
    with (disk / "one").open("wb") as one:
        one.write(b"1" * 20 * MIB)
        os.fsync(one.fileno())
    with pytest.raises(OSError, match="No space left"):
        (disk / "two").write_bytes(b"2" * 128 * MIB)
    assert 20 * MIB < file.stat().st_blocks * 512 <= 128 * MIB


def test_all_disks_together_leave_something_of_the_machines_own(tmp_path: Path, box: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6g", "tmpfs", str(small)], check=True)
    try:
        disks = Disks(small, 10 << 10, count=3)
        assert disks.told == "Each may write 1.5 GiB."
        assert 1400 < size_mb(disks.attach(box)) <= 1536
    finally:
        leftovers.unmount_below(box)
        subprocess.run(["umount", str(small)], check=True)


def test_without_a_limit_a_disk_is_a_folder(tmp_path: Path, box: Path) -> None:
    disks = Disks(tmp_path, 0)
    assert disks.told == "How much each writes is not limited."
    assert not os.path.ismount(disks.attach(box))


def test_what_a_killed_worker_was_trying_goes(tmp_path: Path) -> None:
    trial = tmp_path / "trial-1"
    trial.mkdir()
    disks = Disks(tmp_path, 128)
    disks.attach(trial)
    disks.clear()
    assert not trial.exists()
    assert str(trial) not in Path("/proc/mounts").read_text()
