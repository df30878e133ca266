import json
from pathlib import Path
from typing import Any

import pytest

from desktops.worker.checkers.bench import Bench
from desktops.worker.checkers.errors import ArtefactMissing, CheckerBroken
from desktops.worker.checkers.getters import GETTERS
from desktops.worker.guest_client import Completed, GuestRefused

from .fake_guest import FakeGuest, window

PROFILE = "/home/user/.config/google-chrome/Default"


@pytest.fixture
def bench(guest: FakeGuest, tmp_path: Path) -> Bench:
    return Bench(guest, tmp_path)  # type: ignore[arg-type]


def get(bench: Bench, name: str, **parameters: Any) -> Any:
    return GETTERS[name](bench, parameters)


def test_a_file_of_the_desktop_is_copied_to_the_worker(guest: FakeGuest, bench: Bench) -> None:
    guest.files["/home/user/Desktop/a.txt"] = b"hello"
    path = get(bench, "vm_file", path="~/Desktop/a.txt", dest="b.txt")
    assert path.name == "b.txt"
    assert path.read_bytes() == b"hello"


def test_of_several_files_those_that_the_task_gives_are_handed_on(guest: FakeGuest, bench: Bench) -> None:
    guest.files |= {"/home/user/a": b"a", "/home/user/b": b"b"}
    both = {"path": ["/home/user/a", "/home/user/b"], "dest": ["a", "b"], "multi": True}
    assert [path.name for path in get(bench, "vm_file", **both)] == ["a", "b"]
    assert get(bench, "vm_file", gives=[1], **both).name == "b"


def test_a_name_cannot_lead_out_of_the_folder(guest: FakeGuest, bench: Bench) -> None:
    guest.files["/home/user/a"] = b"a"
    assert get(bench, "vm_file", path="/home/user/a", dest="../../a").parent == bench.folder


def test_a_commands_output_is_what_it_printed_whatever_its_exit_status(
    guest: FakeGuest, bench: Bench
) -> None:
    guest.commands["ls x"] = Completed(2, "out", "no such file")
    assert get(bench, "vm_command_line", command=["ls", "x"]) == "out"
    assert get(bench, "vm_command_error", command="ls x") == "no such file"


def test_a_list_with_shell_goes_to_the_shell_as_one_line(guest: FakeGuest, bench: Bench) -> None:
    GETTERS["vm_command_line"](bench, {"command": ["ls", "|", "wc"], "shell": True})
    get(bench, "vm_command_line", command="ls ~/a")
    assert guest.ran == ["ls | wc", ["ls", "/home/user/a"]]


def test_a_program_that_is_not_there_is_a_broken_checker(guest: FakeGuest, bench: Bench) -> None:
    guest.commands["nope"] = GuestRefused("no such program")
    with pytest.raises(CheckerBroken):
        get(bench, "vm_command_line", command="nope")


def test_what_a_step_left_on_the_worker_is_read_from_there(bench: Bench) -> None:
    (bench.folder / "grep.out").write_text("line")
    assert get(bench, "cache_file", path="grep.out").read_text() == "line"
    with pytest.raises(ArtefactMissing):
        get(bench, "cache_file", path="other.out")


def test_a_bundled_file_does_not_overwrite_the_desktops_one(guest: FakeGuest, bench: Bench) -> None:
    guest.files["/home/user/a.txt"] = b"found"
    found = get(bench, "vm_file", path="/home/user/a.txt", dest="a.txt")
    expected = get(bench, "bundled_file", text="expected", dest="a.txt")
    assert (found.read_text(), expected.read_text()) == ("found", "expected")


def test_a_folder_is_given_as_a_tree(guest: FakeGuest, bench: Bench) -> None:
    guest.files |= {"/home/user/d/a.txt": b"", "/home/user/d/sub/b.txt": b""}
    assert get(bench, "list_directory", path="~/d") == {
        "type": "directory",
        "name": "d",
        "children": [
            {"type": "file", "name": "a.txt"},
            {"type": "directory", "name": "sub", "children": [{"type": "file", "name": "b.txt"}]},
        ],
    }
    with pytest.raises(ArtefactMissing):
        get(bench, "list_directory", path="~/none")


def test_sizes_of_screen_and_window(guest: FakeGuest, bench: Bench) -> None:
    guest.open = [window("film", "vlc.vlc")]
    assert get(bench, "vm_screen_size") == {"width": 1920, "height": 1080}
    assert get(bench, "vm_window_size", app_class_name="vlc") == {"width": 800, "height": 600}
    with pytest.raises(ArtefactMissing):
        get(bench, "vm_window_size", app_class_name="gimp")


def test_the_terminals_text_comes_from_the_accessibility_tree(guest: FakeGuest, bench: Bench) -> None:
    guest.tree = "<desktop-frame><terminal>$ </terminal><terminal>$ ls\na b\n</terminal></desktop-frame>"
    assert get(bench, "vm_terminal_output") == "$ ls\na b"
    guest.tree = "<desktop-frame/>"
    with pytest.raises(ArtefactMissing):
        get(bench, "vm_terminal_output")


def test_settings_files_of_vlc_and_gimp(guest: FakeGuest, bench: Bench) -> None:
    guest.files |= {
        "/home/user/.config/vlc/vlcrc": b"a=1",
        "/home/user/.config/GIMP/2.10/gimprc": b'(theme "Light")',
    }
    assert get(bench, "vlc_config", dest="vlcrc").read_text() == "a=1"
    assert get(bench, "gimp_config_file", file_name="gimprc").read_text() == '(theme "Light")'


def test_the_default_video_player_is_the_one_that_opens_most_kinds(guest: FakeGuest, bench: Bench) -> None:
    guest.run = lambda *_, **__: Completed(0, "vlc.desktop\nmpv.desktop\nvlc.desktop\n", "")  # type: ignore[assignment, method-assign]
    assert get(bench, "default_video_player") == "vlc.desktop"
    guest.run = lambda *_, **__: Completed(4, "", "")  # type: ignore[assignment, method-assign]
    assert get(bench, "default_video_player") == "unknown"


@pytest.mark.parametrize(
    ("name", "preferences", "value"),
    [
        ("profile_name", {"profile": {"name": "Thomas"}}, "Thomas"),
        ("default_search_engine", {}, "Google"),
        (
            "default_search_engine",
            {"default_search_provider_data": {"template_url_data": {"short_name": "Bing"}}},
            "Bing",
        ),
        ("enable_do_not_track", {"enable_do_not_track": True}, "true"),
        ("enable_do_not_track", {}, "false"),
        ("enable_safe_browsing", {"safebrowsing": {"enhanced": True}}, "true"),
        ("enable_safe_browsing", {"safebrowsing": {"enabled": False}}, "false"),
        ("new_startup_page", {}, "true"),
        ("new_startup_page", {"session": {"restore_on_startup": 4}}, "false"),
        (
            "data_delete_automacally",
            {"profile": {"default_content_setting_values": {"cookies": 4}}},
            "true",
        ),
        (
            "chrome_font_size",
            {"webkit": {"webprefs": {"default_font_size": 24}}},
            {"default_fixed_font_size": 13, "default_font_size": 24, "minimum_font_size": 13},
        ),
    ],
)
def test_the_browsers_preferences(
    guest: FakeGuest, bench: Bench, name: str, preferences: dict[str, Any], value: Any
) -> None:
    guest.files[f"{PROFILE}/Preferences"] = json.dumps(preferences).encode()
    assert get(bench, name) == value


def test_a_browser_without_profile_is_a_missing_artefact(bench: Bench) -> None:
    with pytest.raises(ArtefactMissing):
        get(bench, "bookmarks")


def test_cookies_are_found_where_newer_browsers_keep_them(guest: FakeGuest, bench: Bench) -> None:
    guest.files[f"{PROFILE}/Network/Cookies"] = b"sqlite"
    assert get(bench, "cookie_data", dest="Cookies").read_bytes() == b"sqlite"


def test_shortcuts_on_the_desktop(guest: FakeGuest, bench: Bench) -> None:
    guest.files |= {
        "/home/user/Desktop/game.desktop": b"[Desktop Entry]\nName=Game\n",
        "/home/user/Desktop/a": b"",
    }
    assert list(get(bench, "shortcuts_on_desktop")) == ["/home/user/Desktop/game.desktop"]
