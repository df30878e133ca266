"""OSWorld's in-guest HTTP API on our desktop, asked over the agent's own socket and from inside."""

from __future__ import annotations

import http.client
import io
import json
import urllib.parse
from typing import Any

import pytest
from PIL import Image

from desktops.worker.computer import Computer
from desktops.worker.guest_client import Guest

pytestmark = pytest.mark.desktop


class Door:
    """One request at a time to the agent, as an OSWorld controller would send it."""

    def __init__(self, computer: Computer) -> None:
        self._computer = computer

    def __call__(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, bytes]:
        desk = self._computer.engine.find(self._computer.id)
        assert desk
        connection = http.client.HTTPConnection("desktop")
        connection.sock = desk.connect(60)
        try:
            data = json.dumps(body).encode() if content_type == "application/json" else body
            connection.request(method, path, data, {"Content-Type": content_type})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: Any = None) -> Any:
        status, data = self(method, path, body)
        assert status == 200, data
        return json.loads(data)


@pytest.fixture
def door(guest: Guest, basic: Computer) -> Door:
    return Door(basic)


FORM = "application/x-www-form-urlencoded"


def form(**fields: str) -> bytes:
    return urllib.parse.urlencode(fields).encode()


def test_a_screenshot_is_a_png_of_the_screen(door: Door) -> None:
    status, data = door("GET", "/screenshot")
    assert status == 200
    assert Image.open(io.BytesIO(data)).size == (1920, 1080)


def test_a_command_is_executed_with_and_without_a_shell(door: Door) -> None:
    done = door.json("POST", "/execute", {"command": ["echo", "~/x"], "shell": False})
    assert done == {"status": "success", "output": "/home/user/x\n", "error": "", "returncode": 0}
    done = door.json("POST", "/setup/execute", {"command": "echo $((6*7)); exit 2", "shell": True})
    assert (done["output"], done["returncode"]) == ("42\n", 2)
    status, data = door("POST", "/execute", {"command": ["no-such-program"]})
    assert status == 500
    assert json.loads(data)["status"] == "error"


def test_pyautogui_drives_the_desktop(door: Door) -> None:
    code = "import pyautogui; pyautogui.FAILSAFE = False; pyautogui.click(960, 540); print(pyautogui.size())"
    done = door.json("POST", "/execute", {"command": ["python", "-c", code], "shell": False})
    assert done["returncode"] == 0, done
    assert door.json("GET", "/cursor_position") == [960, 540]
    assert "width=1920, height=1080" in done["output"]


def test_an_execution_is_verified(door: Door) -> None:
    wanted = {"command_success": "test -e ~/scratch/there"}
    asked = {"command": "sleep 0.3; mkdir -p ~/scratch && touch ~/scratch/there", "shell": True}
    done = door.json("POST", "/execute_with_verification", {**asked, "verification": wanted})
    assert done["verification"] == "passed"
    never = {"window_exists": "no such window"}
    status, data = door(
        "POST",
        "/setup/execute_with_verification",
        {"command": ["true"], "verification": never, "max_wait_time": 0.3},
    )
    assert status == 500
    assert json.loads(data)["verification"] == "failed"


def test_python_and_bash_are_run(door: Door) -> None:
    done = door.json("POST", "/run_python", {"code": "import sys; print(1 + 1); print('e', file=sys.stderr)"})
    assert (done["status"], done["output"], done["error"]) == ("success", "2\n", "e\n")
    assert door.json("POST", "/run_python", {"code": "1/0"})["status"] == "error"
    done = door.json("POST", "/run_bash_script", {"script": "cd /usr\npwd\nexit 4", "timeout": 10})
    assert (done["status"], done["output"], done["returncode"]) == ("error", "/usr\n", 4)


def test_a_file_is_uploaded_and_given_back(door: Door) -> None:
    edge = "edge"
    body = (
        (
            f'--{edge}\r\nContent-Disposition: form-data; name="file_path"\r\n\r\n~/scratch/up.bin\r\n'
            f'--{edge}\r\nContent-Disposition: form-data; name="file_data"; filename="up.bin"\r\n'
            "Content-Type: application/octet-stream\r\n\r\n"
        ).encode()
        + bytes(range(256))
        + f"\r\n--{edge}--\r\n".encode()
    )
    status, data = door("POST", "/setup/upload", body, f"multipart/form-data; boundary={edge}")
    assert status == 200, data
    status, data = door("POST", "/file", form(file_path="/home/user/scratch/up.bin"), FORM)
    assert (status, data) == (200, bytes(range(256)))
    assert door("POST", "/file", form(file_path="/home/user/nothing"), FORM)[0] == 404


def test_a_program_is_launched_and_its_window_handled(door: Door, guest: Guest) -> None:
    status, data = door("POST", "/setup/launch", {"command": ["mousepad"]})
    assert status == 200
    assert b"launched successfully" in data
    assert guest.wait_window("mousepad", 20)
    assert door("POST", "/setup/activate_window", {"window_name": "Mousepad"})[0] == 200
    size = door("POST", "/window_size", form(app_class_name="Mousepad"), FORM)
    assert json.loads(size[1])["width"] > 100
    assert door("POST", "/setup/close_window", {"window_name": "mousepad", "by_class": True})[0] == 200
    assert door("POST", "/setup/close_window", {"window_name": "mousepad", "by_class": True})[0] == 404


def test_a_file_is_opened_with_its_application(door: Door, guest: Guest) -> None:
    guest.write_file("~/scratch/opened.txt", b"text")
    assert door("POST", "/setup/open_file", {"path": "/home/user/scratch/opened.txt"})[0] == 200
    assert guest.wait_window("opened.txt", 5)


def test_the_terminal_and_the_tree_are_read(door: Door, guest: Guest) -> None:
    assert door.json("GET", "/terminal")["output"] is None
    guest.launch(["xfce4-terminal", "-x", "sh", "-c", "echo seen-by-terminal; sleep 60"])
    assert guest.wait_window("terminal", 20)
    guest.settle(200, 5000)
    assert "seen-by-terminal" in door.json("GET", "/terminal")["output"]
    tree = door.json("GET", "/accessibility")["AT"]
    assert tree.startswith("<desktop-frame")
    assert "xfce4-terminal" in tree


def test_the_desktop_tells_about_itself(door: Door) -> None:
    assert door("GET", "/platform") == (200, b"Linux")
    assert door.json("POST", "/screen_size") == {"width": 1920, "height": 1080}
    assert door.json("POST", "/desktop_path") == {"desktop_path": "/home/user/Desktop"}
    tree = door.json("POST", "/list_directory", {"path": "/home/user"})["directory_tree"]
    assert "Desktop" in [child["name"] for child in tree["children"]]


def test_the_wallpaper_is_changed_and_given_back(door: Door, guest: Guest) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (64, 36), (200, 30, 30)).save(picture, "PNG")
    guest.write_file("~/scratch/red.png", picture.getvalue())
    path = "/home/user/scratch/red.png"
    assert door("POST", "/setup/change_wallpaper", {"path": path})[0] == 200
    guest.settle(300, 5000)
    screen = Image.open(io.BytesIO(guest.screenshot()))
    assert screen.getpixel((1000, 500)) == (200, 30, 30)
    assert door("POST", "/wallpaper") == (200, picture.getvalue())
    guest.run(["pcmanfm", "--wallpaper-mode=color"])


def test_recording_without_ffmpeg_says_why(door: Door) -> None:
    status, data = door("POST", "/start_recording")
    assert status == 501
    assert "ffmpeg" in json.loads(data)["error"]


def test_the_same_calls_answer_inside_the_desktop(guest: Guest) -> None:
    done = guest.run(["curl", "-s", "http://127.0.0.1:5000/platform"])
    assert done.stdout == "Linux"
