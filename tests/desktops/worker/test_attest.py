"""What counts as the same desktop: nearly the same screen, the very same processes and files."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from desktops.protocol.attempt import Attestation
from desktops.worker import attest
from desktops.worker.attest import LOOK, compare
from desktops.worker.guest_client import Completed, GuestUnreachable


def screen(*boxes, shade=0):
    picture = Image.new("RGB", (1920, 1080), (40, 60, 70))
    for box in boxes:
        ImageDraw.Draw(picture).rectangle(box, fill=(40 + shade, 60, 70))
    out = io.BytesIO()
    picture.save(out, "PNG", compress_level=1)
    return out.getvalue()


PARENT = screen()
CARET = (100, 100, 101, 119)
WORDS = (100, 100, 300, 119)


class Guest:
    """Shows one screen after another, the last for ever, and so with what runs."""

    def __init__(self, *screens, processes=(("Xvnc",),), files="a" * 64):
        self.screens, self.processes, self.files = list(screens), list(processes), files
        self.looked = 0

    def screenshot(self):
        return self.screens.pop(0) if len(self.screens) > 1 else self.screens[0]

    def run(self, command, timeout):
        self.looked += 1
        seen = self.processes.pop(0) if len(self.processes) > 1 else self.processes[0]
        return Completed(0, json.dumps({"processes": seen, "files": self.files}), "")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(attest, "PAUSE_SECONDS", 0.0)


def differences(guest, shown=PARENT):
    digest = hashlib.sha256(PARENT).hexdigest()
    return compare(
        guest, Attestation(screenshot=digest, processes=["Xvnc"], files="a" * 64), shown
    ).differences


def test_the_same_is_seen_at_the_first_look():
    guest = Guest(PARENT)
    assert differences(guest) == []
    assert guest.looked == 1


def test_a_caret_may_be_in_the_other_half_of_its_blink():
    assert differences(Guest(screen(CARET, shade=200))) == []


def test_a_shade_that_nobody_sees_is_no_difference():
    assert differences(Guest(screen((0, 0, 1900, 1000), shade=10))) == []


def test_a_line_of_text_more_is_another_screen():
    assert differences(Guest(screen(WORDS, shade=200))) == ["screen: 4,020 pixels differ"]


def test_a_screen_that_becomes_the_same_is_the_same():
    guest = Guest(screen(WORDS, shade=200), screen((0, 0, 9, 900), shade=200), PARENT)
    assert differences(guest) == []


def test_without_the_parents_picture_only_the_very_same_screen_will_do():
    assert differences(Guest(PARENT), None) == []
    assert differences(Guest(screen(CARET, shade=200)), None) == ["screen: 2,073,600 pixels differ"]


def test_a_program_that_is_about_to_end_is_waited_for():
    assert differences(Guest(PARENT, processes=[["Xvnc", "date"], ["Xvnc", "sleep"], ["Xvnc"]])) == []


def test_each_process_counts_as_often_as_it_is_there():
    assert differences(Guest(PARENT, processes=[["Xvnc", "Xvnc"]])) == ["processes: in addition Xvnc"]
    assert differences(Guest(PARENT, processes=[["vim"]])) == ["processes: missing Xvnc; in addition vim"]


def test_other_files_are_a_difference_however_often_they_are_looked_at():
    guest = Guest(PARENT, files="b" * 64)
    assert differences(guest) == ["files: names or contents under /home/user differ"]
    assert guest.looked == attest.LOOKS


def test_a_desktop_that_cannot_be_looked_at_is_unreachable():
    class Blind(Guest):
        def run(self, command, timeout):
            return Completed(1, "", "python3: not found")

    with pytest.raises(GuestUnreachable, match="not found"):
        differences(Blind(PARENT))


# ── what is looked at inside, run here on a folder ──────────────────────────────────────────────────────────────


@pytest.fixture
def look(tmp_path):
    home = tmp_path / "home"
    (home / "Documents").mkdir(parents=True)
    (home / "Documents" / "report.txt").write_text("hello")
    os.symlink("Documents/report.txt", home / "link")

    def look(change=lambda home: None):
        change(home)
        command = [sys.executable, "-I", "-S", "-c", LOOK]
        done = subprocess.run(command, env={"HOME": str(home)}, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    return look


def test_names_contents_links_and_lengths_count(look):
    def large(home, byte):
        with (home / "large").open("wb") as file:
            file.truncate(20 << 20)
            file.seek(-1, os.SEEK_END)
            file.write(byte)

    changes = [
        lambda home: None,
        lambda home: (home / "Documents" / "report.txt").write_text("Hello"),
        lambda home: (home / "Documents" / "report.txt").rename(home / "Documents" / "other.txt"),
        lambda home: (home / "link").unlink(),
        lambda home: (home / "link").symlink_to("elsewhere"),
        lambda home: (home / "empty").mkdir(),
        lambda home: large(home, b"1"),
        lambda home: large(home, b"2"),
    ]
    seen = [look(change)["files"] for change in changes]
    assert len(set(seen)) == len(changes)


def test_caches_pipes_and_times_do_not(look):
    def change(home):
        for folder in (".cache/thumbnails", ".config/chromium"):
            (home / folder).mkdir(parents=True)
            (home / folder / "new").write_bytes(b"1")
        os.mkfifo(home / "pipe")
        os.utime(home / "Documents" / "report.txt", (1, 1))

    before = look(lambda home: (home / ".config").mkdir())["files"]
    assert look(change)["files"] == before


def test_it_counts_what_runs_but_not_itself(tmp_path):
    looker = tmp_path / "looker"
    looker.symlink_to(sys.executable)
    command = [str(looker), "-I", "-S", "-c", LOOK]
    done = subprocess.run(command, env={"HOME": str(tmp_path)}, capture_output=True, text=True, check=True)
    names = json.loads(done.stdout)["processes"]
    assert Path("/proc/self/comm").read_text().strip() in names
    assert "looker" not in names
