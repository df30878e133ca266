"""Commands and files in a desktop."""

from __future__ import annotations

import threading

import pytest

from desktops.worker.guest_client import Guest, GuestCommandTimeout, GuestFileMissing, GuestRefused

pytestmark = pytest.mark.desktop


def test_a_command_gives_its_output_and_exit_code(guest: Guest) -> None:
    done = guest.run("echo out; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
    assert guest.run(["printf", "%s", "a b"]).stdout == "a b"
    assert guest.run("cat; pwd; echo $X", cwd="/usr", env={"X": "y"}, input="in\n").stdout == "in\n/usr\ny\n"


def test_a_command_runs_as_the_user_and_cannot_become_root(guest: Guest) -> None:
    assert guest.run("id -un; echo $HOME").stdout == "user\n/home/user\n"
    assert guest.run("sudo id -u").stdout != "0\n"
    assert guest.run("su -c true").returncode != 0
    assert guest.run("cat /etc/shadow").returncode != 0


def test_a_command_over_its_time_is_killed_with_its_children(guest: Guest) -> None:
    with pytest.raises(GuestCommandTimeout) as caught:
        guest.run("echo begun; sleep 4711 & sleep 4712", timeout=0.5)
    assert caught.value.stdout == "begun\n"
    gone = "for i in $(seq 100); do pgrep -xf 'sleep 471[12]' >/dev/null || exit 0; sleep 0.05; done; exit 1"
    assert guest.run(gone).returncode == 0


def test_a_child_left_in_the_background_does_not_hold_the_answer_up(guest: Guest) -> None:
    assert guest.run("sleep 4713 & echo done", timeout=60).stdout == "done\n"
    assert guest.run("pkill -xf 'sleep 4713'").returncode == 0


def test_a_long_command_blocks_nobody_else(guest: Guest) -> None:
    thread = threading.Thread(target=guest.run, args=("sleep 4714",))
    thread.start()
    assert guest.run("until pgrep -xf 'sleep 4714'; do sleep 0.05; done").returncode == 0
    guest.screenshot()
    guest.windows()
    assert guest.run("pkill -xf 'sleep 4714'").returncode == 0
    thread.join()


def test_a_program_that_is_not_there_is_refused(guest: Guest) -> None:
    with pytest.raises(GuestRefused, match="cannot start it"):
        guest.run(["no-such-program"])
    with pytest.raises(GuestRefused, match="cannot start it"):
        guest.launch(["no-such-program"])


def test_files_are_written_read_and_listed(guest: Guest) -> None:
    data = bytes(range(256)) * 1000
    guest.write_file("/home/user/scratch/deep/er/data.bin", data, 0o755)
    assert guest.read_file("/home/user/scratch/deep/er/data.bin") == data
    assert guest.run("stat -c %a:%U ~/scratch/deep/er/data.bin").stdout == "755:user\n"
    guest.run("ln -s nowhere ~/scratch/link; mkdir ~/scratch/folder")
    entries = guest.list_dir("/home/user/scratch")
    assert [(entry.name, entry.kind) for entry in entries] == [
        ("deep", "folder"),
        ("folder", "folder"),
        ("link", "link"),
    ]
    assert guest.list_dir("~/scratch/deep/er")[0].size == len(data)
    assert guest.exists("~/scratch/folder")
    assert not guest.exists("~/scratch/link")


def test_a_missing_file_is_its_own_error_and_a_folder_is_refused(guest: Guest) -> None:
    with pytest.raises(GuestFileMissing, match="nothing-here"):
        guest.read_file("/home/user/nothing-here")
    with pytest.raises(GuestFileMissing):
        guest.list_dir("/home/user/nothing-here")
    with pytest.raises(GuestRefused):
        guest.read_file("/home/user")
    with pytest.raises(GuestRefused):
        guest.write_file("/etc/passwd", b"")
