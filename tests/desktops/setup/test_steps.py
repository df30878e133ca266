from pathlib import Path
from typing import Any

import pytest

from desktops.worker.guest_client import Completed, GuestUnreachable
from desktops.worker.setup import STEPS, SetupFailed, commands, play, windows
from desktops.worker.task import SetupStep
from tests.desktops.checkers.fake_guest import FakeGuest, window


def run(
    guest: FakeGuest, tmp_path: Path, *steps: tuple[str, dict[str, Any]], lenient: bool = False
) -> list[str]:
    typed = [SetupStep(type=name, parameters=parameters) for name, parameters in steps]
    return play(typed, guest, tmp_path, lenient=lenient)  # type: ignore[arg-type]


def test_a_command_runs_to_its_end_and_leaves_its_output(guest: FakeGuest, tmp_path: Path) -> None:
    guest.commands["ls"] = "a b\n"
    notes = run(guest, tmp_path, ("execute", {"command": ["ls"], "stdout": "../ls.out"}))
    assert notes == []
    assert (tmp_path / "ls.out").read_text() == "a b\n"


def test_an_exit_status_is_a_note_unless_the_step_must_succeed(guest: FakeGuest, tmp_path: Path) -> None:
    guest.commands["grep x f"] = Completed(1, "", "")
    assert run(guest, tmp_path, ("command", {"command": "grep x f"})) == ["grep: exit status 1"]
    with pytest.raises(SetupFailed, match=r"step 1 \(command\): exit status 1"):
        run(guest, tmp_path, ("command", {"command": "grep x f", "must_succeed": True}))


def test_until_runs_a_command_again(guest: FakeGuest, tmp_path: Path) -> None:
    answers = iter([Completed(1, "", ""), Completed(0, "ready\n", "")])
    guest.run = lambda *_, **__: next(answers)  # type: ignore[assignment, method-assign]
    run(guest, tmp_path, ("execute", {"command": "ask", "until": {"stdout": "ready"}}))
    assert next(answers, None) is None


def test_a_launched_app_is_waited_for_by_its_window(guest: FakeGuest, tmp_path: Path) -> None:
    guest.on_launch = lambda desktop: desktop.open.append(
        window("GNU Image Manipulation Program", "gimp.Gimp")
    )
    run(guest, tmp_path, ("launch", {"command": ["gimp"]}))
    assert guest.launched == [["gimp"]]
    assert guest.settled


def test_an_app_that_shows_no_window_fails_the_setup(
    guest: FakeGuest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "wait_new_window", _give_up_at_once)
    with pytest.raises(SetupFailed, match="no window of vlc"):
        run(guest, tmp_path, ("launch", {"command": "VLC_VERBOSE=-1 vlc --no-audio"}))


def _give_up_at_once(guest: Any, class_part: str, before: set[int]) -> Any:
    return _WAIT(guest, class_part, before, seconds=0.2)


_WAIT = commands.wait_new_window


def test_a_program_without_window_is_not_waited_for(guest: FakeGuest, tmp_path: Path) -> None:
    run(guest, tmp_path, ("launch", {"command": ["socat", "tcp-listen:9222,fork", "tcp:localhost:1337"]}))
    assert guest.settled == []


def test_a_kill_is_waited_for(guest: FakeGuest, tmp_path: Path) -> None:
    guest.commands["pgrep -r D,I,R,S,T vlc"] = Completed(1, "", "")
    run(guest, tmp_path, ("launch", {"command": ["pkill", "vlc"]}))
    assert guest.launched == []
    assert guest.ran == [["pkill", "vlc"], ["pgrep", "-r", "D,I,R,S,T", "vlc"]]


def test_a_sleep_is_a_wait_for_a_quiet_screen_with_the_seconds_as_its_end(
    guest: FakeGuest, tmp_path: Path
) -> None:
    run(guest, tmp_path, ("sleep", {"seconds": 3}))
    assert guest.settled == [3000]


def test_opening_a_file_waits_for_a_window_that_names_it(guest: FakeGuest, tmp_path: Path) -> None:
    guest.files["/home/user/a.txt"] = b""
    guest.on_launch = lambda desktop: desktop.open.append(window("a.txt - Mousepad", "mousepad.Mousepad"))
    run(guest, tmp_path, ("open", {"path": "/home/user/a.txt"}))
    with pytest.raises(SetupFailed, match=r"there is no /home/user/b\.txt"):
        run(guest, tmp_path, ("open", {"path": "/home/user/b.txt"}))


def test_windows_are_activated_and_closed(guest: FakeGuest, tmp_path: Path) -> None:
    guest.open = [window("Mail", "thunderbird.Thunderbird")]
    run(
        guest,
        tmp_path,
        ("activate_window", {"window_name": "Mail", "strict": True}),
        ("close_window", {"window_name": "thunderbird.Thunderbird", "by_class": True, "strict": True}),
    )
    assert guest.open == []
    with pytest.raises(SetupFailed):
        run(guest, tmp_path, ("activate_window", {"window_name": "Mail"}))


def test_names_of_windows_match_in_part_or_strictly() -> None:
    mail = window("Inbox - Mail", "mail.Thunderbird")
    assert windows.matches(mail, "inbox", by_class=False, strict=False)
    assert not windows.matches(mail, "Inbox", by_class=False, strict=True)
    assert windows.matches(mail, "Thunderbird", by_class=True, strict=True)
    assert windows.matches(mail, "mail.Thunderbird", by_class=True, strict=True)


def test_files_come_with_the_task(guest: FakeGuest, tmp_path: Path) -> None:
    files = [{"path": "~/a.txt", "text": "é"}, {"path": "Desktop/b.bin", "content_base64": "AAE="}]
    run(guest, tmp_path, ("upload_file", {"files": files}))
    assert guest.files == {"/home/user/a.txt": "é".encode(), "/home/user/Desktop/b.bin": b"\0\1"}
    with pytest.raises(SetupFailed, match="no content"):
        run(guest, tmp_path, ("upload_file", {"files": [{"path": "c"}]}))


def test_a_download_is_refused(guest: FakeGuest, tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match="on the web"):
        run(guest, tmp_path, ("download", {"files": []}))


def test_the_background_is_set(guest: FakeGuest, tmp_path: Path) -> None:
    guest.files["/home/user/a.png"] = b""
    run(guest, tmp_path, ("change_wallpaper", {"path": "~/a.png"}))
    assert ["pcmanfm", "--set-wallpaper", "/home/user/a.png"] in guest.ran


def test_tabs_open_only_for_addresses_within_the_desktop(guest: FakeGuest, tmp_path: Path) -> None:
    run(guest, tmp_path, ("chrome_open_tabs", {"urls_to_open": ["file:///home/user/a.html"]}))
    with pytest.raises(SetupFailed, match="no way to"):
        run(guest, tmp_path, ("chrome_open_tabs", {"urls_to_open": ["https://example.org"]}))


def test_an_unknown_step_fails_and_says_which(guest: FakeGuest, tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match=r"step 2 \(levitate\)"):
        run(guest, tmp_path, ("sleep", {"seconds": 0}), ("levitate", {}))


def test_parameters_that_cannot_be_read_fail_the_step(guest: FakeGuest, tmp_path: Path) -> None:
    with pytest.raises(SetupFailed, match="parameters"):
        run(guest, tmp_path, ("sleep", {}), lenient=True)


def test_after_the_policy_a_failing_step_is_a_note(guest: FakeGuest, tmp_path: Path) -> None:
    notes = run(
        guest, tmp_path, ("close_window", {"window_name": "x"}), ("sleep", {"seconds": 1}), lenient=True
    )
    assert notes == ["step 1 (close_window): there is no window 'x'"]
    assert guest.settled == [1000]


def test_a_desktop_out_of_reach_is_told_even_after_the_policy(guest: FakeGuest, tmp_path: Path) -> None:
    guest.gone = True
    with pytest.raises(GuestUnreachable):
        run(guest, tmp_path, ("sleep", {"seconds": 1}), lenient=True)


def test_an_app_told_to_quit_is_waited_for(guest: FakeGuest, tmp_path: Path) -> None:
    guest.open = [window("gimp", "gimp.Gimp", active=True)]

    def quits(command: Any, **_: Any) -> Completed:
        guest.open = []
        return Completed(0, "", "")

    guest.run = quits  # type: ignore[assignment, method-assign]
    run(guest, tmp_path, ("execute", {"command": ["python3", "-c", 'pyautogui.hotkey(["ctrl", "q"]);']}))
    assert guest.open == []


def test_every_step_of_the_format_that_runs_here_is_registered() -> None:
    assert set(STEPS) >= {
        "launch",
        "execute",
        "command",
        "open",
        "activate_window",
        "close_window",
        "sleep",
        "chrome_open_tabs",
        "chrome_close_tabs",
        "change_wallpaper",
        "upload_file",
        "download",
    }
