"""OSWorld's in-guest HTTP API: what its controllers and evaluators ask of a desktop, answered by ours.

Only the behaviour is the same: addresses, bodies and answers. Nothing here waits for a fixed time.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from email import message_from_bytes
from email.policy import HTTP
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl
from xml.etree import ElementTree

from . import shell
from .httpd import Handler, Refused, Reply, Request, json_reply, text_reply
from .recording import Recording

EXECUTE_SECONDS = 120.0
PYTHON_SECONDS = 60.0
SCRIPT_SECONDS = 100.0
DOWNLOAD_SECONDS = 120.0
OPEN_SECONDS = 10.0
POLL_SECONDS = 0.1
MAX_NODES = 5000
MAX_LISTED = 20_000


class Desktop(Protocol):
    """What this API needs of the agent's desktop."""

    screen: Any
    windows: Any
    input: Any

    def accessibility(self, max_nodes: int) -> str: ...


class Osworld:
    """`desktop()` gives the desktop once it is there."""

    def __init__(self, desktop: Any) -> None:
        self._desktop = desktop
        self._recording = Recording()

    def routes(self) -> dict[tuple[str, str], Handler]:
        routes: dict[tuple[str, str], Handler] = {
            ("GET", "/screenshot"): self.screenshot,
            ("GET", "/terminal"): self.terminal,
            ("GET", "/accessibility"): self.accessibility,
            ("GET", "/platform"): lambda request: text_reply("Linux"),
            ("GET", "/cursor_position"): self.cursor_position,
            ("POST", "/screen_size"): self.screen_size,
            ("POST", "/window_size"): self.window_size,
            ("POST", "/desktop_path"): self.desktop_path,
            ("POST", "/wallpaper"): self.wallpaper,
            ("POST", "/list_directory"): self.list_directory,
            ("POST", "/file"): self.file,
            ("POST", "/run_python"): self.run_python,
            ("POST", "/run_bash_script"): self.run_bash_script,
            ("POST", "/start_recording"): self.start_recording,
            ("POST", "/end_recording"): self.end_recording,
            ("POST", "/setup/launch"): self.launch,
            ("POST", "/setup/upload"): self.upload,
            ("POST", "/setup/download_file"): self.download_file,
            ("POST", "/setup/open_file"): self.open_file,
            ("POST", "/setup/change_wallpaper"): self.change_wallpaper,
            ("POST", "/setup/activate_window"): self.activate_window,
            ("POST", "/setup/close_window"): self.close_window,
        }
        for prefix in ("", "/setup"):
            routes["POST", f"{prefix}/execute"] = self.execute
            routes["POST", f"{prefix}/execute_with_verification"] = self.execute_with_verification
        return routes

    # ── looking ───────────────────────────────────────────────────────────────────────────────────────────────

    def screenshot(self, request: Request) -> Reply:
        return Reply(self._desktop().screen.png(), "image/png")

    def accessibility(self, request: Request) -> Reply:
        return json_reply({"AT": self._desktop().accessibility(MAX_NODES)})

    def terminal(self, request: Request) -> Reply:
        """The text of the terminal on top, null when there is none."""
        root = ElementTree.fromstring(self._desktop().accessibility(MAX_NODES))  # noqa: S314  (our own walk)
        found = [node.text or "" for node in root.iter("terminal")]
        return json_reply({"output": found[-1].rstrip() if found else None, "status": "success"})

    def cursor_position(self, request: Request) -> Reply:
        return json_reply(list(self._desktop().input.position()))

    def screen_size(self, request: Request) -> Reply:
        screen = self._desktop().screen
        return json_reply({"width": screen.width, "height": screen.height})

    def window_size(self, request: Request) -> Reply:
        name = _form(request).get("app_class_name", "")
        window = self._desktop().windows.find(name, by_class=True) if name else None
        return json_reply({"width": window.width, "height": window.height} if window else None)

    def desktop_path(self, request: Request) -> Reply:
        return json_reply({"desktop_path": str(shell.resolve("Desktop"))})

    def wallpaper(self, request: Request) -> Reply:
        """The picture the desktop shows; 404 when it shows a plain colour."""
        config = shell.resolve(".config/pcmanfm/default/desktop-items-0.conf")
        for line in config.read_text().splitlines():
            key, _, value = line.partition("=")
            if key == "wallpaper" and value:
                return Reply(shell.read(value))
        raise Refused("no wallpaper is set", 404)

    def list_directory(self, request: Request) -> Reply:
        path = shell.resolve(_required(request.json(), "path"))
        if not path.is_dir():
            raise Refused(f"no such folder: {path}", 404)
        left = [MAX_LISTED]
        return json_reply({"directory_tree": _tree(path, left)})

    def file(self, request: Request) -> Reply:
        path = _form(request).get("file_path")
        if not path:
            raise Refused("file_path is required", 400)
        return Reply(shell.read(os.path.expandvars(path)))

    # ── doing ─────────────────────────────────────────────────────────────────────────────────────────────────

    def execute(self, request: Request) -> Reply:
        asked = request.json()
        command = _command(asked.get("command"), bool(asked.get("shell", False)))
        return json_reply(*_execute(command, float(asked.get("timeout") or EXECUTE_SECONDS)))

    def execute_with_verification(self, request: Request) -> Reply:
        """Run it, then ask until the verification holds: a window with a name, a command that succeeds."""
        asked = request.json()
        command = _command(asked.get("command"), bool(asked.get("shell", False)))
        document, status = _execute(command, EXECUTE_SECONDS)
        wanted = asked.get("verification") or {}
        if status != 200 or not wanted:
            return json_reply(document, status)
        started = time.monotonic()
        limit = float(asked.get("max_wait_time") or 10)
        while not self._holds(wanted):
            if time.monotonic() - started > limit:
                return json_reply(
                    {
                        **document,
                        "status": "error",
                        "verification": "failed",
                        "message": f"the verification did not hold within {limit:g} s",
                        "wait_time": limit,
                    },
                    500,
                )
            time.sleep(min(float(asked.get("check_interval") or POLL_SECONDS), POLL_SECONDS))
        waited = round(time.monotonic() - started, 3)
        return json_reply({**document, "verification": "passed", "wait_time": waited})

    def _holds(self, wanted: dict[str, Any]) -> bool:
        name = wanted.get("window_exists")
        windows = self._desktop().windows
        if name and not (windows.find(name) or windows.find(name, by_class=True)):
            return False
        command = wanted.get("command_success")
        return not command or shell.run(command, 5).returncode == 0

    def run_python(self, request: Request) -> Reply:
        code = _required(request.json(), "code")
        with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
            file.write(code)
        try:
            document, status = _execute(["python3", file.name], PYTHON_SECONDS)
        finally:
            os.unlink(file.name)
        failed = status != 200 or document["returncode"] != 0
        return json_reply(
            {
                "status": "error" if failed else "success",
                "message": document.get("error") or document.get("message") or "",
                "need_more": False,
                "output": document.get("output", ""),
                "error": document.get("error", ""),
                "return_code": document.get("returncode", -1),
                "returncode": document.get("returncode", -1),
            },
            status,
        )

    def run_bash_script(self, request: Request) -> Reply:
        asked = request.json()
        script, folder = _required(asked, "script"), asked.get("working_dir")
        limit = float(asked.get("timeout") or SCRIPT_SECONDS)
        try:
            done = shell.run(script, limit, folder and os.path.expanduser(folder))
        except OSError as error:
            raise Refused(str(error), 400) from error
        output = (done.stdout + done.stderr).decode(errors="replace")
        if done.timed_out:
            message = f"the script ran longer than {limit:g} s"
            return json_reply({"status": "error", "output": message, "error": "", "returncode": -1}, 500)
        status = "success" if done.returncode == 0 else "error"
        return json_reply({"status": status, "output": output, "error": "", "returncode": done.returncode})

    def launch(self, request: Request) -> Reply:
        asked = request.json()
        command = _command(asked.get("command"), bool(asked.get("shell", False)))
        try:
            shell.launch(command)
        except OSError as error:
            return json_reply({"status": "error", "message": str(error)}, 500)
        words = command if isinstance(command, str) else shlex.join(command)
        return text_reply(f"{words} launched successfully")

    def upload(self, request: Request) -> Reply:
        form, files = _multipart(request)
        path = form.get("file_path")
        if not path or "file_data" not in files:
            raise Refused("file_path and file_data are required", 400)
        shell.write(os.path.expandvars(path), files["file_data"], 0o644)
        return text_reply("File Uploaded")

    def download_file(self, request: Request) -> Reply:
        asked = request.json()
        url, path = _required(asked, "url"), _required(asked, "path")
        if not url.startswith(("http://", "https://")):
            raise Refused("the url must be http or https", 400)
        try:
            with urllib.request.urlopen(url, timeout=DOWNLOAD_SECONDS) as answer:  # noqa: S310  (checked above)
                data = answer.read()
        except (urllib.error.URLError, OSError) as error:
            raise Refused(f"cannot download {url}: {error}", 500) from error
        shell.write(os.path.expandvars(path), data, 0o644)
        return text_reply("File downloaded successfully")

    def open_file(self, request: Request) -> Reply:
        """Open a file with its application and wait, boundedly, for the window that shows it."""
        path = shell.resolve(os.path.expandvars(_required(request.json(), "path")))
        if not path.exists():
            raise Refused(f"no such file: {path}", 404)
        windows = self._desktop().windows
        before = {window.id for window in windows.present()}
        shell.launch(["xdg-open", str(path)])
        end = time.monotonic() + OPEN_SECONDS
        while time.monotonic() < end:
            if any(window.id not in before or path.stem in window.title for window in windows.present()):
                return text_reply("File opened successfully")
            time.sleep(POLL_SECONDS)
        return text_reply(f"No window for {path} came up in {OPEN_SECONDS:g} s", 500)

    def change_wallpaper(self, request: Request) -> Reply:
        path = shell.resolve(os.path.expandvars(_required(request.json(), "path")))
        if not path.is_file():
            raise Refused(f"no such file: {path}", 404)
        done = shell.run(["pcmanfm", "--set-wallpaper", str(path), "--wallpaper-mode=stretch"], 20)
        if done.returncode:
            raise Refused(f"the wallpaper could not be changed: {done.stderr.decode(errors='replace')}", 500)
        return text_reply("Wallpaper changed successfully")

    def activate_window(self, request: Request) -> Reply:
        name, by_class, strict = _window_asked(request)
        if not self._desktop().windows.activate(name, by_class, strict):
            raise Refused(f"no window is called {name!r}", 404)
        return text_reply("Window activated successfully")

    def close_window(self, request: Request) -> Reply:
        name, by_class, strict = _window_asked(request)
        if not self._desktop().windows.close(name, by_class, strict):
            raise Refused(f"no window is called {name!r}", 404)
        return text_reply("Window closed successfully")

    def start_recording(self, request: Request) -> Reply:
        screen = self._desktop().screen
        self._recording.start(screen.width, screen.height)
        return json_reply({"status": "success", "message": "recording"})

    def end_recording(self, request: Request) -> Reply:
        return Reply(self._recording.end(), "video/mp4")


def _execute(command: str | Sequence[str], timeout: float) -> tuple[dict[str, Any], int]:
    """(answer, HTTP status) of a command run to its end."""
    try:
        done = shell.run(command, timeout)
    except OSError as error:
        return {"status": "error", "message": str(error)}, 500
    if done.timed_out:
        return {"status": "error", "message": f"the command ran longer than {timeout:g} s"}, 500
    output, errors = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    answer = {"status": "success", "output": output, "error": errors, "returncode": done.returncode}
    return answer, 200


def _command(command: Any, through_shell: bool) -> str | list[str]:
    """A string goes to the shell or is split into words; `~/` opens to the home folder in each word."""
    if through_shell:
        return command if isinstance(command, str) else shlex.join(str(part) for part in command or [])
    words = shlex.split(command) if isinstance(command, str) else [str(part) for part in command or []]
    if not words:
        raise Refused("command is required", 400)
    return [os.path.expanduser(word) if word.startswith("~/") else word for word in words]


def _required(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise Refused(f"{name} is required", 400)
    return value


def _window_asked(request: Request) -> tuple[str, bool, bool]:
    asked = request.json()
    return _required(asked, "window_name"), bool(asked.get("by_class")), bool(asked.get("strict"))


def _form(request: Request) -> dict[str, str]:
    """Fields of a form, however it was sent; a JSON object counts too."""
    content_type = request.headers.get("Content-Type", "")
    if content_type.startswith("multipart/"):
        return _multipart(request)[0]
    if content_type.startswith("application/json"):
        return {str(key): str(value) for key, value in json.loads(request.body or b"{}").items()}
    return dict(parse_qsl(request.body.decode(), keep_blank_values=True))


def _multipart(request: Request) -> tuple[dict[str, str], dict[str, bytes]]:
    head = f"Content-Type: {request.headers.get('Content-Type', '')}\r\n\r\n".encode()
    message = message_from_bytes(head + request.body, policy=HTTP)
    if not message.is_multipart():
        raise Refused("the body is no multipart form", 400)
    form: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True)
        if not isinstance(name, str) or not isinstance(data, bytes):
            continue
        if part.get_filename() is None:
            form[name] = data.decode(errors="replace")
        else:
            files[name] = data
    return form, files


def _tree(path: Path, left: list[int]) -> dict[str, Any]:
    """A folder and what is under it, as far as there is room."""
    children = []
    for entry in sorted(path.iterdir()):
        if left[0] <= 0:
            break
        left[0] -= 1
        if entry.is_dir() and not entry.is_symlink():
            try:
                children.append(_tree(entry, left))
            except PermissionError:
                children.append({"type": "directory", "name": entry.name, "children": []})
        else:
            children.append({"type": "file", "name": entry.name})
    return {"type": "directory", "name": path.name, "children": children}
