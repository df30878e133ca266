"""Metrics on VLC: its settings file and its status."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from desktops.worker.checkers import readers

from .registry import metric

Rules = Mapping[str, Any]

BLACKISH = 100  # every component of a colour below this


def _setting(path: Path, key: str, default: str) -> str:
    """A setting of vlcrc. VLC writes what is at its default as a comment (#key=value), which counts too."""
    value = default
    for line in readers.lines(path):
        name, separator, text = line.partition("=")
        if separator and name.strip().lstrip("#").strip() == key:
            value = text.strip()
    return value


@metric("check_qt_bgcone")
def check_qt_bgcone(found: Path, expected: Rules) -> float:
    """Whether the cone is drawn while nothing plays."""
    return float(_setting(found, "qt-bgcone", "1") == str(expected["expected_qt_bgcone"]))


@metric("check_qt_max_volume")
def check_qt_max_volume(found: Path, expected: Rules) -> float:
    """The end of the volume slider, in percent."""
    return float(_setting(found, "qt-max-volume", "125") == str(expected["expected_qt_max_volume"]))


@metric("check_qt_minimal_view")
def check_qt_minimal_view(found: Path, expected: Rules) -> float:
    return float(_setting(found, "qt-minimal-view", "0") == str(expected["expected_qt_minimal_view"]))


@metric("check_qt_slider_colours")
def check_qt_slider_colours(found: Path, expected: Rules) -> float:
    """The volume slider's colours: with type "match" these, with "blackish" all of them dark."""
    colours = _setting(found, "qt-slider-colours", "153;210;153;20;210;20;255;199;15;245;39;29")
    if expected["type"] == "match":
        return float(colours == expected["expected_qt_slider_colours"])
    parts = [part.strip() for part in colours.split(";") if part.strip()]
    return float(bool(parts) and all(part.isdigit() and int(part) < BLACKISH for part in parts))


@metric("check_one_instance_when_started_from_file")
def check_one_instance_when_started_from_file(found: Path, expected: Rules) -> float:
    wanted = str(expected["expected_one_instance_when_started_from_file"])
    return float(_setting(found, "one-instance-when-started-from-file", "1") == wanted)


@metric("check_play_and_exit")
def check_play_and_exit(found: Path, expected: Rules) -> float:
    return float(_setting(found, "play-and-exit", "0") == str(expected["expected_play_and_exit"]))


@metric("check_global_key_play_pause")
def check_global_key_play_pause(found: Path, expected: Rules) -> float:
    """Whether play/pause has a global key."""
    bound = "1" if _setting(found, "global-key-play-pause", "") else "0"
    return float(bound == str(expected["expected_global_key_play_pause"]))


@metric("is_vlc_recordings_folder")
def is_vlc_recordings_folder(found: Path, expected: Rules) -> float:
    return float(_setting(found, "input-record-path", "") == expected["recording_file_path"])


@metric("check_vlc_setting")
def check_vlc_setting(found: Path, expected: Rules) -> float:
    """Any setting: {key, value, default}."""
    return float(_setting(found, expected["key"], str(expected.get("default", ""))) == str(expected["value"]))


@metric("is_vlc_playing")
def is_vlc_playing(found: Path, expected: Rules) -> float:
    """VLC plays the file of that name, or the stream of that address."""
    root = readers.xml(found)
    if root.findtext("state") != "playing":
        return 0.0
    names = [
        node.text or "" for node in root.iter("info") if node.get("name") in ("filename", "url", "title")
    ]
    wanted = expected["file_name"] if expected["type"] == "file_name" else expected["url"]
    return float(any(name and (wanted.endswith(name) or name.endswith(wanted)) for name in names))
