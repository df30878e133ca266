"""OSWorld's own controllers at work on the desktop behind a port of 127.0.0.1; prints what they got, as JSON.

Run by the Python of their own environment: drive_osworld.py PORT FOLDER. FOLDER is for files of this side.

What they import only for things no desktop here can reach is stood in for, so that the environment stays small:

* pydrive (Google Drive; needs the Google API client) and formulas (evaluators' spreadsheets; needs scipy)
  are empty modules;
* desktop_env.evaluators.metrics is entered without its __init__, which imports every evaluator (torch by
  way of easyocr, OpenCV, librosa, …); the one module of it that the controllers use is the real one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import sys
import time
import types
from pathlib import Path
from typing import Any

STAND_INS = {
    "formulas": (),
    "pydrive": (),
    "pydrive.auth": ("GoogleAuth",),
    "pydrive.drive": ("GoogleDrive", "GoogleDriveFile", "GoogleDriveFileList"),
}
TITLE = "osworld terminal"
TYPED = r"""if (a < b && c > d) { e = "F"; } # it's ~100% [OK] {x|y} $z ^ \ _ + @!? `q`"""
WAIT_SECONDS = 20.0


def stand_in() -> None:
    for name, attributes in STAND_INS.items():
        module = types.ModuleType(name)
        for attribute in attributes:
            setattr(module, attribute, type(attribute, (), {}))
        sys.modules[name] = module
    found = importlib.util.find_spec("desktop_env")
    if found is None or not found.submodule_search_locations:
        raise ImportError("desktop_env is not installed here")
    metrics = types.ModuleType("desktop_env.evaluators.metrics")
    metrics.__path__ = [str(Path(found.submodule_search_locations[0], "evaluators", "metrics"))]
    sys.modules[metrics.__name__] = metrics


def picture(data: bytes | None) -> dict[str, Any]:
    """Size and digest of a PNG."""
    data = data or b""
    return {
        "png": data.startswith(b"\x89PNG\r\n\x1a\n"),
        "width": int.from_bytes(data[16:20], "big"),
        "height": int.from_bytes(data[20:24], "big"),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


class Drive:
    """One controller of each kind, and what came of using them, by name."""

    def __init__(self, port: int, folder: Path) -> None:
        from desktop_env.controllers.python import PythonController
        from desktop_env.controllers.setup import SetupController

        self.folder = folder
        self.hands = PythonController("127.0.0.1", port)
        self.setup = SetupController("127.0.0.1", port, cache_dir=str(folder))

    def all(self) -> dict[str, Any]:
        return {
            "facts": self.facts(),
            "files": self.files(),
            "commands": self.commands(),
            "terminal": self.terminal(),
            "windows": self.windows(),
        }

    def facts(self) -> dict[str, Any]:
        return {
            "platform": self.hands.get_vm_platform(),
            "screen": self.hands.get_vm_screen_size(),
            "screenshot": picture(self.hands.get_screenshot()),
            "desktop": self.hands.get_vm_desktop_path(),
        }

    def files(self) -> dict[str, Any]:
        """Bytes of every value go in by upload, and come back by get_file."""
        data = bytes(range(256)) * 5000
        local = self.folder / "upload.bin"
        local.write_bytes(data)
        steps = [{"local_path": str(local), "path": "/home/user/Documents/prüfung/upload.bin"}]
        self.setup.setup([{"type": "upload_file", "parameters": {"files": steps}}])
        back = self.hands.get_file("/home/user/Documents/prüfung/upload.bin")
        tree = self.hands.get_vm_directory_tree("/home/user/Documents")
        return {"same": back == data, "tree": tree}

    def commands(self) -> dict[str, Any]:
        run = {
            "command": [
                "python3",
                "-c",
                "import sys; print('out é'); print('err', file=sys.stderr); sys.exit(3)",
            ],
            "stdout": "out.txt",
            "stderr": "err.txt",
        }
        until = {
            "command": "echo -n . >> ~/tries; [ $(wc -c < ~/tries) -ge 3 ] && echo enough",
            "shell": True,
        }
        self.setup.setup(
            [
                {"type": "execute", "parameters": run},
                {"type": "execute", "parameters": {**until, "until": {"stdout": "enough"}}},
            ]
        )
        return {
            "stdout": (self.folder / "out.txt").read_text(),
            "stderr": (self.folder / "err.txt").read_text(),
            "tries": (self.hands.get_file("/home/user/tries") or b"").decode(),
            "python": self.hands.execute_python_command("print(pyautogui.size())"),
            "script": self.hands.run_python_script("import sys\nprint(sys.version_info[0])\n"),
            "broken": self.hands.run_python_script("raise ValueError('no')"),
            "bash": self.hands.run_bash_script("cd Documents\nls\nexit 4", working_dir="/home/user"),
        }

    def terminal(self) -> dict[str, Any]:
        """A terminal by launch; a line typed by pyautogui, key by key, ends up in a file and on the screen."""
        self.setup.setup(
            [
                {
                    "type": "launch",
                    "parameters": {
                        "command": ["gnome-terminal", f"--title={TITLE}", "--", "cat"],
                        "shell": False,
                    },
                },
                {
                    "type": "execute_with_verification",
                    "parameters": {
                        "command": ["true"],
                        "verification": {"window_exists": TITLE},
                        "max_wait_time": WAIT_SECONDS,
                    },
                },
                {"type": "activate_window", "parameters": {"window_name": TITLE}},
            ]
        )
        before = picture(self.hands.get_screenshot())
        self.hands.execute_action({"action_type": "TYPING", "parameters": {"text": TYPED}})
        self.hands.execute_action({"action_type": "PRESS", "parameters": {"key": "enter"}})
        # `cat` says each line again: the text is there twice once all of it has arrived.
        end = time.monotonic() + WAIT_SECONDS
        while (output := self.hands.get_terminal_output() or "").count("`q`") < 2 and time.monotonic() < end:
            time.sleep(0.1)
        after = picture(self.hands.get_screenshot())
        return {
            "typed": TYPED,
            "output": output,
            "changed": before["sha256"] != after["sha256"],
            "tree": self.hands.get_accessibility_tree(),
            "size": self.hands.get_vm_window_size("xfce4-terminal"),
        }

    def windows(self) -> dict[str, Any]:
        """Editor over terminal; each comes to the front when asked for, and goes when told to close."""
        self.setup.setup(
            [
                {"type": "launch", "parameters": {"command": "gedit /home/user/note.txt", "shell": False}},
                {
                    "type": "execute_with_verification",
                    "parameters": {
                        "command": ["true"],
                        "verification": {"window_exists": "note.txt"},
                        "max_wait_time": WAIT_SECONDS,
                    },
                },
            ]
        )
        found: dict[str, Any] = {}
        for name, asked in (
            ("terminal", {"window_name": TITLE, "strict": True}),
            ("editor", {"window_name": "Mousepad", "by_class": True}),
        ):
            self.setup.setup([{"type": "activate_window", "parameters": asked}])
            found[name] = self.active()
        self.setup.setup([{"type": "close_window", "parameters": {"window_name": TITLE}}])
        gone = f"for i in $(seq 100); do wmctrl -l | grep -q '{TITLE}' || break; sleep 0.1; done"
        found["left"] = self.hands.run_bash_script(f"{gone}; wmctrl -l")["output"]
        return found

    def active(self) -> str:
        return str(self.hands.run_bash_script("xdotool getactivewindow getwindowname")["output"]).strip()


def main() -> None:
    stand_in()
    with open(sys.argv[2] + "/result.json", "w") as file:
        json.dump(Drive(int(sys.argv[1]), Path(sys.argv[2])).all(), file)


if __name__ == "__main__":
    main()
