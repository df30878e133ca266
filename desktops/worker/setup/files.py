"""Steps that bring files: upload_file (content comes with the task), download (refused), change_wallpaper."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from .registry import Stage, StepRefused, step

HOME = PurePosixPath("/home/user")


@step("upload_file")
def upload_file(stage: Stage, parameters: Mapping[str, Any]) -> None:
    """Write files: `files` = [{path, text | content_base64, mode (octal text)}]."""
    for item in parameters["files"]:
        if "text" in item:
            data = str(item["text"]).encode()
        elif "content_base64" in item:
            data = base64.b64decode(item["content_base64"], validate=True)
        else:
            raise StepRefused(f"no content came with {item.get('path')}")
        stage.guest.write_file(in_home(item["path"]), data, mode=int(str(item.get("mode", "644")), 8))


@step("download")
def download(stage: Stage, parameters: Mapping[str, Any]) -> None:
    """Refused: desktops have no way to the web; the importer lists such tasks instead of offering them."""
    raise StepRefused("the files of this step are on the web, and desktops have no way there")


@step("change_wallpaper")
def change_wallpaper(stage: Stage, parameters: Mapping[str, Any]) -> None:
    """Set the desktop's background picture."""
    path = in_home(parameters["path"])
    if not stage.guest.exists(path):
        raise StepRefused(f"there is no {path}")
    stage.guest.run(["gsettings", "set", "org.gnome.desktop.background", "picture-uri", f"file://{path}"])
    done = stage.guest.run(["pcmanfm", "--set-wallpaper", path], timeout=20)
    if done.returncode:
        raise StepRefused(f"the background could not be set: {done.stderr.strip()[-300:]}")
    stage.guest.settle(quiet_ms=200, timeout_ms=3000)


def in_home(path: str) -> str:
    """The absolute path of a file that a task names, ~ and relative ones from the user's home."""
    pure = PurePosixPath(path)
    if pure.parts and pure.parts[0] == "~":
        pure = HOME.joinpath(*pure.parts[1:])
    return str(pure if pure.is_absolute() else HOME / pure)
