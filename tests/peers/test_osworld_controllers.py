"""OSWorld's own controller library drives one of our desktops."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from console.embedded.home import Home
from desktops.worker.computer import Computer
from desktops.worker.engine.base import DeskSpec
from desktops.worker.engine.choose import open_engine

from .bridge import bridge
from .environment import python_of

HERE = Path(__file__).parent
DRIVE_SECONDS = 240

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def got(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the two controllers got from a fresh basic desktop."""
    python = python_of(Home.from_environment().root / "peers" / "osworld", HERE / "osworld-requirements.lock")
    folder = tmp_path_factory.mktemp("osworld")
    engine = open_engine(os.environ.get("DESKYARD_ENGINE", "auto"), folder / "worker")
    try:
        image = [image for image in engine.images() if image.name == "basic"][-1]
        with Computer(engine, DeskSpec(computer=str(uuid.uuid4()), image=image.digest)) as computer:
            desk = engine.find(computer.id)
            assert desk is not None
            with bridge(desk.connect) as port:
                subprocess.run(
                    [python, str(HERE / "drive_osworld.py"), str(port), str(folder)],
                    cwd=folder,
                    env={"PATH": os.environ["PATH"], "HOME": str(folder), "LC_ALL": "C.UTF-8"},
                    stdin=subprocess.DEVNULL,
                    check=True,
                    timeout=DRIVE_SECONDS,
                )
    finally:
        engine.close()
    read: dict[str, Any] = json.loads((folder / "result.json").read_text())
    return read


def test_it_learns_what_the_desktop_is(got: dict[str, Any]) -> None:
    facts = got["facts"]
    assert facts["platform"] == "Linux"
    assert facts["screen"] == {"width": 1920, "height": 1080}
    assert facts["desktop"] == "/home/user/Desktop"


def test_it_gets_the_whole_screen_as_png(got: dict[str, Any]) -> None:
    shot = got["facts"]["screenshot"]
    assert (shot["png"], shot["width"], shot["height"]) == (True, 1920, 1080)


def test_a_file_goes_in_and_comes_back_unchanged(got: dict[str, Any]) -> None:
    files = got["files"]
    assert files["same"]
    folder = {child["name"]: child for child in files["tree"]["children"]}["prüfung"]
    assert [child["name"] for child in folder["children"]] == ["upload.bin"]


def test_setup_executes_a_command_and_keeps_what_it_printed(got: dict[str, Any]) -> None:
    assert (got["commands"]["stdout"], got["commands"]["stderr"]) == ("out é\n", "err\n")


def test_setup_repeats_a_command_until_it_prints_what_is_waited_for(got: dict[str, Any]) -> None:
    assert got["commands"]["tries"] == "..."


def test_python_commands_run_with_pyautogui(got: dict[str, Any]) -> None:
    python = got["commands"]["python"]
    assert python["returncode"] == 0, python
    assert "1920" in python["output"]


def test_scripts_say_how_they_ended(got: dict[str, Any]) -> None:
    commands = got["commands"]
    assert (commands["script"]["status"], commands["script"]["output"].strip()) == ("success", "3")
    assert commands["broken"]["status"] == "error"
    assert "ValueError: no" in commands["broken"]["error"]
    assert (commands["bash"]["returncode"], commands["bash"]["output"].strip()) == (4, "prüfung")


def test_what_pyautogui_types_arrives_key_by_key(got: dict[str, Any]) -> None:
    """Also `<`, which arrives as `>` where a second key has it. pyautogui leaves out what is not ASCII."""
    terminal = got["terminal"]
    assert terminal["output"].splitlines()[:2] == [terminal["typed"], terminal["typed"]]


def test_the_screen_shows_what_was_typed(got: dict[str, Any]) -> None:
    assert got["terminal"]["changed"]


def test_the_accessibility_tree_names_the_terminal(got: dict[str, Any]) -> None:
    root = ElementTree.fromstring(got["terminal"]["tree"])  # noqa: S314  (our own desktop's)
    assert root.tag == "desktop-frame"
    assert [node for node in root.iter("terminal") if "`q`" in (node.text or "")]


def test_the_window_of_a_class_has_a_size(got: dict[str, Any]) -> None:
    size = got["terminal"]["size"]
    assert 200 < size["width"] <= 1920
    assert 100 < size["height"] <= 1080


def test_windows_come_to_the_front_by_title_and_by_class(got: dict[str, Any]) -> None:
    windows = got["windows"]
    assert windows["terminal"] == "osworld terminal"
    assert "note.txt" in windows["editor"]


def test_a_window_closes_when_it_is_told_to(got: dict[str, Any]) -> None:
    assert "note.txt" in got["windows"]["left"]
    assert "osworld terminal" not in got["windows"]["left"]
