"""Workers that are killed, and disks that are full, while desktops are saved and restored: nothing is lost or left."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from desktops.worker.computer import Computer
from desktops.worker.engine.base import EngineError, SavingEngine
from desktops.worker.engine.choose import RUNC, open_engine
from desktops.worker.engine.runc import leftovers
from desktops.worker.engine.runc.engine import RuncEngine
from desktops.worker.guest_client import Guest, GuestUnreachable

from .doomed import FIRST
from .test_containers import spec, until

pytestmark = pytest.mark.desktop

Images = Callable[[str], str]
MIB = 1 << 20


@pytest.fixture
def home(tmp_path: Path, engine_address: str) -> Iterator[Path]:
    if not engine_address.startswith(RUNC):
        pytest.skip("live desktops cannot be saved on this machine")
    yield tmp_path / "worker"
    leftovers.unmount_below(tmp_path)  # of a test that failed: else its folder could not be cleared away


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
        assert set(engine.sweep([]).removed) == set(boxes)
        assert list((home / "desktops/states").glob("*.new")) == []
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
            with pytest.raises(EngineError, match=r"No space left|checkpoint failed|could not be saved"):
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


def test_a_desktop_whose_watchdog_was_killed_ends_with_its_worker(
    engine_address: str, home: Path, image: Images
) -> None:
    with (
        doomed(engine_address, home, image("basic"), "hold") as (process, computer),
        opened(engine_address, home) as observer,
    ):
        desk = observer.find(computer)
        assert desk
        end_watchdog(Guest(desk.connect))
        assert not until(lambda: not lives(computer), 2)
        process.kill()
        assert until(lambda: not lives(computer))
        assert desk.state() == "exited"


def test_a_desktop_whose_watchdog_was_killed_ends_when_nothing_pays_for_it(
    engine_address: str, home: Path, image: Images
) -> None:
    with opened(engine_address, home) as engine:
        later = datetime.now(UTC) + timedelta(minutes=5)
        with (
            Computer(engine, spec(image("basic"), paid_until=later)) as computer,
            Computer(engine, spec(image("basic"), paid_until=later)) as other,
        ):
            end_watchdog(computer.guest)
            with pytest.raises(GuestUnreachable):
                computer.set_paid_until(datetime.now(UTC) + timedelta(seconds=1))
            assert until(lambda: not lives(computer.id))
            assert other.lost() is None


def test_desktops_outlive_an_engine_that_is_closed_in_good_order(
    engine_address: str, home: Path, image: Images
) -> None:
    with opened(engine_address, home) as engine:
        closed = open_engine(engine_address, home)
        desk = closed.create(spec(image("basic")))
        closed.close()
        found = engine.find(desk.computer)
        assert found
        assert found.state() == "running"
        assert engine.sweep([]).removed == [desk.computer]


def test_a_guardian_that_was_killed_is_there_again_with_the_next_desktop(
    engine_address: str, home: Path, image: Images
) -> None:
    with opened(engine_address, home) as engine:
        assert isinstance(engine, RuncEngine)
        engine.create(spec(image("basic")))
        first = engine._guardian._process
        assert first
        first.kill()
        first.wait()
        later = datetime.now(UTC) + timedelta(minutes=5)
        desk = engine.create(spec(image("basic"), paid_until=later))
        desk.set_paid_until(datetime.now(UTC))
        assert until(lambda: not lives(desk.computer))


def end_watchdog(guest: Guest) -> None:
    with pytest.raises(GuestUnreachable):
        guest.run("pkill -KILL -f 'm guest.serve[r]'")
    guest.disconnect()
