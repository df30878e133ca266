"""Settings of single apps, read from their files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from desktops.worker.checkers.bench import Bench
from desktops.worker.checkers.errors import ArtefactMissing

from .registry import getter

# fmt: off
VIDEO_TYPES = (
    "3gpp", "3gpp2", "avi", "divx", "dv", "fli", "flv", "mp2t", "mp4", "mpeg", "msvideo", "ogg", "quicktime",
    "vnd.avi", "vnd.divx", "vnd.rn-realvideo", "webm", "x-avi", "x-flv", "x-m4v", "x-matroska", "x-mpeg",
    "x-ms-asf", "x-ms-wmv", "x-msvideo", "x-ogm+ogg", "x-theora+ogg",
)
# fmt: on


@getter("vlc_config")
def vlc_config(bench: Bench, parameters: Mapping[str, Any]) -> Path:
    """VLC's settings file."""
    return bench.fetch("~/.config/vlc/vlcrc", str(parameters.get("dest") or "vlcrc"))


@getter("vlc_playing_info")
def vlc_playing_info(bench: Bench, parameters: Mapping[str, Any]) -> Path:
    """VLC's status by its HTTP interface, as XML. Nothing there when VLC does not run with that interface."""
    done = bench.run(
        ["curl", "-sf", "-m", "5", "-u", ":password", "http://127.0.0.1:8080/requests/status.xml"]
    )
    if done.returncode:
        raise ArtefactMissing("VLC's HTTP interface does not answer")
    return bench.keep(str(parameters.get("dest") or "status.xml"), done.stdout.encode())


@getter("gimp_config_file")
def gimp_config_file(bench: Bench, parameters: Mapping[str, Any]) -> Path:
    """One of the files in GIMP's settings folder."""
    name = str(parameters["file_name"])
    return bench.fetch(f"~/.config/GIMP/2.10/{name}", str(parameters.get("dest") or name))


@getter("vscode_config")
def vscode_config(bench: Bench, parameters: Mapping[str, Any]) -> Path:
    """A file that the editor's test extension has written."""
    return bench.fetch(str(parameters["path"]), str(parameters.get("dest") or ""))


@getter("default_video_player")
def default_video_player(bench: Bench, parameters: Mapping[str, Any]) -> str:
    """The desktop file that opens most kinds of video."""
    types = " ".join(f"video/{name}" for name in VIDEO_TYPES)
    # Under `set +e` semantics a type without an app prints nothing and the loop goes on.
    done = bench.run(f"for kind in {types}; do xdg-mime query default $kind; done")
    votes = Counter(line.strip() for line in done.stdout.splitlines() if line.strip())
    return votes.most_common(1)[0][0] if votes else "unknown"
