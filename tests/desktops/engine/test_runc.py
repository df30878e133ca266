"""Desktops on runc: a saved one comes back with all it had, and nothing of any is left behind."""

from __future__ import annotations

import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from desktops.protocol.actions import Key, Type, Wait
from desktops.worker.computer import Computer
from desktops.worker.engine.base import DeskSpec, EngineError, StateMissing, warm_state
from desktops.worker.engine.choose import RUNC, open_engine
from desktops.worker.engine.runc import disks, leftovers
from desktops.worker.engine.runc.disks import Disks
from desktops.worker.engine.runc.engine import RuncEngine
from desktops.worker.states import States
from desktops.worker.warm import Warmer

from .test_containers import spec, until

pytestmark = pytest.mark.desktop

Images = Callable[[str], str]
ALIVE = "/tmp/alive"  # noqa: S108 (inside the desktop)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "worker"
    leftovers.unmount_below(tmp_path)  # of a test that failed: else its folder could not be cleared away


@pytest.fixture
def runc(engine_address: str, home: Path) -> Iterator[RuncEngine]:
    if not engine_address.startswith(RUNC):
        pytest.skip("live desktops cannot be saved on this machine")
    made = open_engine(engine_address, home)
    assert isinstance(made, RuncEngine)
    yield made
    report = made.sweep([])
    assert (report.left, report.problems) == ([], [])
    assert str(home) not in Path("/proc/mounts").read_text()
    made.close()


def test_the_next_desktop_starts_from_the_saved_one_with_limits_of_its_own(
    runc: RuncEngine, home: Path, image: Images
) -> None:
    digest = image("basic")
    Warmer(runc, States(runc, home / "states"), threading.Event()).keep_up([digest])
    assert [state.name for state in runc.states()] == [warm_state(digest)]
    assert runc.list_owned() == []  # the one that was saved is gone
    with Computer(runc, spec(digest)) as first, Computer(runc, spec(digest)) as second:
        assert first.id != second.id
        assert first.image_id == second.image_id
        assert first.restored
        assert second.restored
        assert "CapBnd:\t0000000000000000" in first.guest.run("cat /proc/self/status").stdout
        assert first.guest.run("ls /sys/class/net").stdout.split() == ["lo"]
        first.guest.write_file("~/mine", b"1")
        assert not second.guest.exists("~/mine")
        first.set_paid_until(datetime.now(UTC) + timedelta(seconds=1))
        assert until(lambda: first.lost(patience=0) == "desktop_lost")
        assert second.lost() is None


def test_unsaved_work_is_on_every_copy_and_then_they_part(runc: RuncEngine, image: Images) -> None:
    digest = image("basic")
    with Computer(runc, spec(digest)) as parent:
        parent.guest.launch(["mousepad"])
        parent.guest.act(Wait(window="Mousepad", seconds=20), settle_ms=200, timeout_ms=5000)
        empty = parent.guest.screenshot()
        parent.guest.act(Type(text="before the copy, "), settle_ms=200, timeout_ms=5000)
        before = parent.guest.screenshot()
        assert before != empty
        parent.save(warm_state(digest), resume=False)
    with ExitStack() as stack:
        with ThreadPoolExecutor(2) as pool:
            started = pool.map(lambda _: Computer(runc, spec(digest)).start(), range(3))
            copies = [stack.enter_context(copy) for copy in started]
        assert [copy.guest.screenshot() == before for copy in copies] == [True, True, True]
        for number, copy in enumerate(copies):
            for action in (
                Type(text=f"in copy {number}"),
                Key(keys=["ctrl", "s"]),
                Wait(window="Save As", seconds=10),
                Type(text="/home/user/text"),
                Wait(seconds=3),  # the dialog takes no Return while it looks for names
                Key(keys=["enter"]),
            ):
                copy.guest.act(action, settle_ms=200, timeout_ms=5000)
        for number, copy in enumerate(copies):
            assert until(lambda copy=copy: copy.guest.exists("~/text"))  # type: ignore[misc]
            assert copy.guest.read_file("~/text").decode().strip() == f"before the copy, in copy {number}"


def test_a_desktop_that_was_saved_goes_on_and_so_do_forks_of_its_forks(
    runc: RuncEngine, image: Images
) -> None:
    digest = image("basic")
    with Computer(runc, spec(digest)) as parent:
        parent.guest.launch(["sh", "-c", f"while sleep 0.1; do date +%s%N > {ALIVE}; done"])
        assert until(lambda: parent.guest.exists(ALIVE))
        first = parent.save("first", resume=True)
        assert parent.lost() is None
        before = parent.guest.read_file(ALIVE)
        assert until(lambda: parent.guest.read_file(ALIVE) != before)
        parent.guest.write_file("~/after", b"the parent's")
        with Computer(runc, spec(digest, state="first")) as child:
            assert not child.guest.exists("~/after")
            child.guest.write_file("~/child", b"1")
            second = child.save("second", resume=True)
            with Computer(runc, spec(digest, state="second")) as grandchild:
                assert grandchild.guest.read_file("~/child") == b"1"
                before = grandchild.guest.read_file(ALIVE)
                assert until(lambda: grandchild.guest.read_file(ALIVE) != before)
    assert [state.name for state in runc.states()] == ["first", "second"]
    assert first.digest != second.digest
    assert first.size_bytes > 10 << 20
    runc.forget("first")
    with pytest.raises(StateMissing, match="first"):
        runc.create(spec(digest, state="first"))
    assert runc.list_owned() == []


def test_a_saved_desktop_goes_with_its_image(runc: RuncEngine, home: Path, image: Images) -> None:
    digest = image("basic")
    with Computer(runc, spec(digest)) as parent:
        parent.save(warm_state(digest), resume=False)
    States(runc, home / "states").forget_all_but([])
    assert runc.states() == []


def test_a_saved_desktop_that_is_broken_is_forgotten_and_the_next_starts_cold(
    runc: RuncEngine, image: Images
) -> None:
    digest = image("basic")
    with Computer(runc, spec(digest)) as parent:
        parent.save(warm_state(digest), resume=False)
    [pages] = list((runc._folder / "states").glob("*/images/inventory.img"))
    pages.write_bytes(b"nothing of the kind")
    with Computer(runc, spec(digest)) as next_one:
        assert next_one.guest.ready()
        assert runc.states() == []


def test_what_cannot_be_saved_runs_on(runc: RuncEngine, image: Images) -> None:
    digest = image("basic")
    with Computer(runc, spec(digest)) as computer:
        desk = runc.find(computer.id)
        assert desk
        with desk.connect(5), pytest.raises(EngineError, match="is connected to from outside"):
            runc.save(desk, "a", resume=True)
        assert runc.states() == []
        assert desk.state() == "running"
        assert computer.guest.ready()


def test_what_could_not_be_started_again_is_not_saved_and_runs_on(runc: RuncEngine, image: Images) -> None:
    hold = "cd; touch a; ln a b; exec 3< a; rm a; touch held; sleep 100"
    with Computer(runc, spec(image("basic"))) as computer:
        computer.guest.launch(["bash", "-c", hold])
        assert until(lambda: computer.guest.exists("~/held"))
        with pytest.raises(EngineError, match="one name of several"):
            computer.save("a", resume=False)
        assert runc.states() == []
        assert computer.lost() is None
        assert computer.guest.run("rm b").returncode == 0
        assert computer.save("a", resume=True).size_bytes  # one without a name is saved with what it holds


def test_a_sweep_clears_what_a_killed_worker_left_in_any_state(
    runc: RuncEngine, home: Path, image: Images
) -> None:
    running, kept = runc.create(spec(image("basic"))), runc.create(spec(image("basic")))
    laid_out = spec(image("basic"))
    runc._lay_out(
        laid_out, runc._layers.of(laid_out.image), home / "desktops/boxes" / laid_out.computer, None, None
    )
    empty = home / "desktops/boxes" / str(uuid.uuid4())
    empty.mkdir()
    assert sorted(owned.state for owned in runc.list_owned()) == ["created", "created", "running", "running"]
    shutil.rmtree(
        home / "desktops/boxes" / running.computer / "work", ignore_errors=True
    )  # a removal broken off
    report = runc.sweep([kept.computer])
    assert set(report.removed) == {running.computer, laid_out.computer, empty.name}
    assert set(report.unstarted) == {laid_out.computer, empty.name}
    assert (report.left, report.problems) == ([], [])
    assert [owned.computer for owned in runc.list_owned()] == [kept.computer]
    assert kept.state() == "running"
    assert running.state() == "gone"


def test_a_desktop_may_use_no_more_than_its_limits(runc: RuncEngine, image: Images) -> None:
    with Computer(runc, spec(image("basic"), memory_mb=1024)) as computer:
        hungry = computer.guest.run("python3 -c 'x = bytearray(1200 << 20)'; echo $?")
        assert hungry.stdout.strip() == "137"
        assert computer.guest.run("mount -t tmpfs x /mnt").returncode
        assert "Seccomp:\t2" in computer.guest.run("cat /proc/self/status").stdout


def test_a_program_can_make_no_namespace_and_start_programs_and_threads_all_the_same(
    runc: RuncEngine, image: Images
) -> None:
    clone3 = "import ctypes, os; ctypes.CDLL(None, use_errno=True).syscall(435, 0, 0); "
    clone3 += "print(os.strerror(ctypes.get_errno()))"
    thread = "import threading as t; w = t.Thread(target=print, args=['threads']); w.start(); w.join()"
    with Computer(runc, spec(image("basic"))) as computer:
        for flags in ("--user", "--user --map-root-user --mount", "--net", "--fork --pid"):
            assert computer.guest.run(f"unshare {flags} true").returncode, flags
        assert computer.guest.run(["python3", "-c", clone3]).stdout.strip() == "Function not implemented"
        assert computer.guest.run(["python3", "-c", thread]).stdout.strip() == "threads"
        assert computer.guest.run("nsenter --target 1 --uts true").returncode


def test_an_image_that_cannot_be_saved_is_not_tried_again_at_once(
    runc: RuncEngine,
    home: Path,
    image: Images,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(runc._runc, "save", _refuse)
    warmer = Warmer(runc, States(runc, home / "states"), threading.Event())
    for _ in range(2):
        warmer.keep_up([image("basic")])
    assert caplog.text.count("start cold for now") == 1
    assert runc.list_owned() == []


def test_whether_live_desktops_can_be_saved_is_seen_by_doing_it_once_for_each_start_of_the_machine(
    runc: RuncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert runc.cannot_save_because() == ""
    assert (runc.states(), runc.list_owned()) == ([], [])
    monkeypatch.setattr(runc._runc, "save", _refuse)
    assert runc.cannot_save_because() == ""
    (runc._folder / "rehearsed").unlink()
    assert "cannot be saved here: runc checkpoint failed" in runc.probe().cannot_fork_because
    assert runc.list_owned() == []


def test_a_program_that_is_not_there_is_why_nothing_can_be_saved(
    runc: RuncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runc, "_criu", Path("/nowhere/criu"))
    said = runc.probe()
    assert (said.can_fork, said.cannot_fork_because) == (
        False,
        "A live desktop cannot be saved here: /nowhere/criu cannot be started: No such file or directory",
    )


def _refuse(name: str, images: Path) -> None:
    raise EngineError("runc checkpoint failed: criu is not there")


def test_a_desktop_spec_is_no_part_of_what_is_saved(runc: RuncEngine, image: Images) -> None:
    """A desktop that is saved with one watchdog limit gives desktops that keep their own."""
    digest = image("basic")
    with Computer(runc, spec(digest)) as parent:
        parent.save(warm_state(digest), resume=False)
    made = DeskSpec(computer=str(uuid.uuid4()), image=digest, silence_seconds=2.0)
    with Computer(runc, made) as computer:
        computer._stopping.set()  # its worker speaks no more
        desk = runc.find(computer.id)
        assert desk
        assert until(lambda: desk.state() != "running", 60)


def test_a_restore_that_was_broken_off_is_cleared_and_the_host_is_left_alone(
    runc: RuncEngine, home: Path, image: Images
) -> None:
    """What a worker that was killed leaves: runc still at it, mounts of CRIU's, notes of runc's."""
    made = spec(image("basic"))
    folder = home / "desktops/boxes" / made.computer
    runc._lay_out(made, runc._layers.of(made.image), folder, None, None)
    outside = home / "outside"
    outside.mkdir()
    (outside / "kept").write_text("mine")
    for point in (folder / "work-criu" / "yard", home / "desktops/runc" / made.computer / "criu-root"):
        point.mkdir(parents=True)
        subprocess.run(["mount", "--bind", str(outside), str(point)], check=True)
    words = ["runc", "--root", str(home / "desktops/runc"), "restore", made.computer]
    still_at_it = subprocess.Popen(["sh", "-c", "sleep 60; :", *words])
    try:
        # A process that has only just begun has no words to be known by yet.
        assert until(lambda: b"restore" in Path(f"/proc/{still_at_it.pid}/cmdline").read_bytes(), 60)
        report = runc.sweep([])
        assert (report.removed, report.left) == ([made.computer], [])
        assert until(lambda: still_at_it.poll() is not None, 60)
    finally:
        still_at_it.kill()
        still_at_it.wait()
    assert (outside / "kept").read_text() == "mine"
    assert str(home) not in Path("/proc/mounts").read_text()
    assert not (home / "desktops/runc" / made.computer).exists()


def test_a_desktop_with_folders_without_end_can_be_removed(runc: RuncEngine, image: Images) -> None:
    with Computer(runc, spec(image("basic"))) as computer:
        dig = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
        assert computer.guest.run(["python3", "-c", dig], cwd="/home/user").returncode == 0
    assert runc.list_owned() == []


def test_a_desktop_that_is_stopped_while_it_is_saved_can_be_ended(runc: RuncEngine, image: Images) -> None:
    with Computer(runc, spec(image("basic"))) as computer:
        for path, word in (
            ("freezer/deskyard/{}/freezer.state", "FROZEN"),
            ("deskyard/{}/cgroup.freeze", "1"),
        ):
            place = Path("/sys/fs/cgroup") / path.format(computer.id)
            if place.exists():
                place.write_text(word)
        assert runc.sweep([]).removed == [computer.id]


def test_the_first_desktops_of_an_image_may_begin_at_once(runc: RuncEngine, image: Images) -> None:
    specs = [spec(image("basic")) for _ in range(4)]
    with ThreadPoolExecutor(len(specs)) as pool:
        desks = list(pool.map(runc.create, specs))
    assert {desk.state() for desk in desks} == {"running"}


def test_a_desktop_that_fills_its_disk_is_told_so_and_harms_nobody(
    engine_address: str, home: Path, image: Images, runc: RuncEngine
) -> None:
    limited = open_engine(engine_address, home, disk_mb=256)
    assert isinstance(limited, RuncEngine)
    assert "0.25 GiB" in limited.probe().isolation
    with (
        closing(limited),
        Computer(limited, spec(image("basic"))) as full,
        Computer(limited, spec(image("basic"))) as other,
    ):
        filled = full.guest.run("dd if=/dev/zero of=~/all bs=1M count=1000")
        assert "No space left on device" in filled.stderr
        assert full.lost() is None
        other.guest.write_file("~/mine", b"1" * (50 << 20))
        taken = (home / "desktops/boxes" / full.id / "disk.img").stat().st_blocks * 512
        assert taken <= 256 << 20
        assert full.save("saved-full", resume=True).size_bytes > 200 << 20
        full.guest.run("rm ~/all")
        full.guest.write_file("~/mine", b"1")
        with Computer(limited, spec(image("basic"), state="saved-full")) as copied:
            assert copied.guest.run("dd if=/dev/zero of=~/more bs=1M count=200").returncode


def test_where_no_disk_can_be_made_desktops_run_and_the_workers_page_says_so(
    runc: RuncEngine, home: Path, image: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disks, "OPTIONS", "loop,no-such-option")
    runc._disks = Disks(home, 256)
    assert "not limited" in runc.probe().isolation
    assert "mount failed" in runc.probe().isolation
    with Computer(runc, spec(image("basic"))) as computer:
        assert computer.guest.ready()


def test_removing_a_desktop_does_not_wait_until_its_files_are_deleted(
    runc: RuncEngine, image: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, remove = threading.Event(), leftovers.remove

    def wait_and_remove(path: Path) -> None:
        assert path.parent.name != "going" or go_on.wait(60)
        remove(path)

    computer = Computer(runc, spec(image("basic"))).start()
    monkeypatch.setattr(leftovers, "remove", wait_and_remove)
    try:
        computer.stop()
        assert runc.find(computer.id) is None
        assert runc.list_owned() == []
        [box] = (runc._folder / "going").iterdir()
        assert (box / "config.json").exists()
    finally:
        go_on.set()
    assert until(lambda: not list((runc._folder / "going").iterdir()))
