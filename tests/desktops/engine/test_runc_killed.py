"""Workers that are killed, and disks that are full, while desktops are saved and restored: nothing is lost or left."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from desktops.worker.computer import Computer
from desktops.worker.engine.base import EngineError, SavingEngine
from desktops.worker.engine.choose import RUNC, open_engine
from desktops.worker.engine.runc import leftovers

from .doomed import FIRST
from .test_containers import spec, until

pytestmark = pytest.mark.desktop

Images = Callable[[str], str]
MIB = 1 << 20


@pytest.fixture
def home(tmp_path: Path, engine_address: str) -> Path:
    if not engine_address.startswith(RUNC):
        pytest.skip("live desktops cannot be saved on this machine")
    return tmp_path / "worker"


@contextmanager
def opened(address: str, home: Path) -> Iterator[SavingEngine]:
    """The next worker on that home: it clears what was left, and leaves nothing itself."""
    engine = open_engine(address, home)
    assert isinstance(engine, SavingEngine)
    try:
        yield engine
        report = engine.sweep([])
        assert (report.left, report.problems) == ([], [])
    finally:
        engine.close()
    assert str(home) not in Path("/proc/mounts").read_text()
    assert list((home / "desktops/going").iterdir()) == []


@contextmanager
def doomed(address: str, home: Path, image: str, work: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A worker that is killed at the end, and the computer it has."""
    words = [sys.executable, "-m", "tests.desktops.engine.doomed", address, str(home), image, work]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def lives(computer: str) -> bool:
    return any(leftovers.members(group) for group in leftovers.groups(computer))


@pytest.mark.parametrize(
    ("work", "sign"),
    [("save", "states/*.new/images/pages-*.img"), ("restore", "boxes/*/work-criu/*")],
)
def test_a_worker_killed_while_it_saves_or_restores_leaves_what_was_saved_before_and_nothing_else(
    engine_address: str, home: Path, image: Images, work: str, sign: str
) -> None:
    with doomed(engine_address, home, image("basic"), work) as (process, computer):
        assert computer
        assert until(lambda: any((home / "desktops").glob(sign)))
        process.kill()
    boxes = [box.name for box in (home / "desktops/boxes").iterdir()]
    assert computer in boxes
    with opened(engine_address, home) as engine:
        assert list((home / "desktops/states").glob("*.new")) == []
        assert set(engine.sweep([]).removed) == set(boxes)
        assert not any(lives(box) for box in boxes)
        assert FIRST in [state.name for state in engine.states()]
        with Computer(engine, spec(image("basic"), state=FIRST)) as again:
            assert again.guest.ready()


@pytest.fixture
def small(home: Path) -> Iterator[Path]:
    """A disk of 1 GiB."""
    place = home.with_name("small")
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_a_desktop_that_does_not_fit_on_the_disk_is_not_saved_and_runs_on(
    engine_address: str, small: Path, image: Images
) -> None:
    with (
        opened(engine_address, small / "worker") as engine,
        Computer(engine, spec(image("basic"))) as computer,
    ):
        computer.guest.write_file("~/mine", b"1" * 60 * MIB)
        first = computer.save(FIRST, resume=True)
        for room in (first.size_bytes - 20 * MIB, 4 * MIB):  # its processes fit; nothing does
            leave(small, room)
            with pytest.raises(EngineError, match=r"No space left|checkpoint failed"):
                computer.save("saved-again", resume=True)
            assert computer.lost() is None
            assert len(computer.guest.read_file("~/mine")) == 60 * MIB
            assert engine.states() == [first]
        leave(small, 500 * MIB)
        assert computer.save("saved-again", resume=True).size_bytes > 60 * MIB


def leave(disk: Path, room: int) -> None:
    """Fill it up to that many bytes."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    free = shutil.disk_usage(disk).free
    subprocess.run(["fallocate", "-l", str(free - room), str(ballast)], check=True)
