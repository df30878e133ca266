"""What a desktop is like, and whether a copy of it is the same.

The rule. The screen: at most `PIXELS` of its pixels may differ, which is a blinking caret or the hand of a clock and
less than a line of text. Processes: the same names, each as often. Files under /home/user: the same names and
contents. Each of the three has to be so once within `LOOKS` looks, since a caret blinks and a program may be about to
start another. Left out of the files are caches, and the folders in which browsers and the mail program keep their own
books: those are written to while nobody does anything. Of a long file its size, its beginning and its end count, and
of what is beyond the bounds below only the names.
"""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from desktops.protocol.attempt import Attestation

from .faults import NotReady
from .guest_client import Guest, GuestUnreachable

PIXELS = 1000  # of 2,073,600
SHADE = 16  # of 255: a smaller difference of a colour is none
LOOKS, PAUSE_SECONDS = 8, 0.25
REST_MS, REST_CAP_MS = 200, 5000
MOST_NAMED = 20  # processes in a sentence

LOOK = r"""
import hashlib, json, os, stat

LEFT_OUT = {".cache", ".config/google-chrome", ".config/chromium", ".mozilla", ".thunderbird", ".pki"}
MOST_FILES, MOST_BYTES, WHOLE, END = 20_000, 256 << 20, 4 << 20, 1 << 20
home = os.fsencode(os.path.expanduser("~"))
left_out = {os.path.join(home, os.fsencode(name)) for name in LEFT_OUT}

def processes():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", errors="replace") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            continue  # it has ended meanwhile
        if int(pid) != os.getpid() and not rest.startswith(" Z"):
            yield name

def content(path, size):
    whole = hashlib.sha256()
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if size <= WHOLE:
                whole.update(file.read(WHOLE))
            else:
                whole.update(file.read(END))
                file.seek(-END, os.SEEK_END)
                whole.update(file.read(END))
    except OSError as error:
        return str(error.errno).encode()
    return whole.digest()

whole, files, read = hashlib.sha256(), 0, 0
for root, folders, names in os.walk(home):
    folders[:] = sorted(name for name in folders if os.path.join(root, name) not in left_out)
    for name in sorted(names) + folders:
        path = os.path.join(root, name)
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            continue
        if stat.S_ISSOCK(found.st_mode) or stat.S_ISFIFO(found.st_mode):
            continue
        whole.update(path + b"\0")
        if stat.S_ISLNK(found.st_mode):
            whole.update(os.readlink(path) + b"\0")
        elif stat.S_ISREG(found.st_mode):
            files += 1
            whole.update(b"%d\0" % found.st_size)
            if files <= MOST_FILES and read <= MOST_BYTES:
                read += min(found.st_size, WHOLE)
                whole.update(content(path, found.st_size))
print(json.dumps({"processes": sorted(processes()), "files": whole.hexdigest()}))
"""
LOOK_SECONDS = 60.0


@dataclass(frozen=True)
class Likeness:
    """What was compared. `screenshot` is the copy's own, the one most like its parent's."""

    differences: list[str]
    screenshot: bytes


def attest(guest: Guest, keep: Callable[[bytes], str]) -> tuple[Attestation, bytes]:
    """What this desktop is like, and its screen; `keep` stores a file and gives its digest. Raises NotReady."""
    before: tuple[list[str], str] | None = None
    for _ in _looks():
        rests = guest.settle(quiet_ms=REST_MS, timeout_ms=REST_CAP_MS)
        processes, files = _look(guest)
        if rests and (processes, files) == before:
            screen = guest.screenshot()
            return Attestation(screenshot=keep(screen), processes=processes, files=files), screen
        before = (processes, files)
    raise NotReady(
        "the desktop never rests: its screen, processes or files go on changing, so no copy of it could be compared"
    )


def compare(guest: Guest, parent: Attestation, screen: bytes | None) -> Likeness:
    """`screen` is the parent's; without it only its digest is compared."""
    best: tuple[int, bytes] | None = None
    told: dict[str, str] = {}
    same: set[str] = set()
    for _ in _looks():
        if not {"processes", "files"} <= same:
            processes, files = _look(guest)
            told["processes"] = _other_processes(parent.processes, processes)
            told["files"] = (
                "" if files == parent.files else "files: names or contents under /home/user differ"
            )
        if "screen" not in same:  # last: what has just ended may still be drawn
            seen = guest.screenshot()
            pixels = _pixels(seen, parent.screenshot, screen)
            if best is None or pixels < best[0]:
                best = (pixels, seen)
            told["screen"] = f"screen: {best[0]:,} pixels differ" if best[0] > PIXELS else ""
        same |= {what for what, words in told.items() if not words}
        if len(same) == 3:
            break
    assert best is not None
    return Likeness([told[what] for what in sorted(told) if what not in same], best[1])


def _looks() -> Iterator[int]:
    """Up to LOOKS of them, with a pause between two: something has to have the time to change back."""
    pause = threading.Event()
    for number in range(LOOKS):
        if number:
            pause.wait(PAUSE_SECONDS)
        yield number


def _look(guest: Guest) -> tuple[list[str], str]:
    """Names of the processes, sorted, and the digest of the files. Raises GuestError."""
    done = guest.run(["python3", "-I", "-S", "-c", LOOK], timeout=LOOK_SECONDS)
    try:
        found = json.loads(done.stdout)
        return [str(name) for name in found["processes"]], str(found["files"])
    except (ValueError, KeyError, TypeError) as error:
        raise GuestUnreachable(f"the desktop cannot be looked at: {done.stderr.strip()[-300:]}") from error


def _pixels(seen: bytes, digest: str, screen: bytes | None) -> int:
    """How many differ; every one, where there is nothing to compare them with."""
    if hashlib.sha256(seen).hexdigest() == digest:
        return 0
    from PIL import Image, ImageChops

    with Image.open(io.BytesIO(seen)) as ours:
        if screen is None:
            return ours.width * ours.height
        with Image.open(io.BytesIO(screen)) as theirs:
            if ours.size != theirs.size:
                return ours.width * ours.height
            bands = ImageChops.difference(ours.convert("RGB"), theirs.convert("RGB")).split()
    most = ImageChops.lighter(ImageChops.lighter(bands[0], bands[1]), bands[2])
    return sum(most.histogram()[SHADE:])


def _other_processes(before: list[str], now: list[str]) -> str:
    missing, more = Counter(before) - Counter(now), Counter(now) - Counter(before)
    parts = [
        f"{words} {', '.join(sorted(names.elements())[:MOST_NAMED])}"
        for words, names in (("missing", missing), ("in addition", more))
        if names
    ]
    return f"processes: {'; '.join(parts)}" if parts else ""
