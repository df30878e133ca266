"""CRIU, which saves and restores live processes: the machine's own if it is new enough, else one from Debian.

Debian 12 has 3.17, which fails on recent kernels. The one of Debian's unstable suite works; it is unpacked with the
libraries it needs into a folder of its own, by apt alone, and nothing of the system changes.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from desktops.worker.engine.base import EngineError

OLDEST = (4, 2)
SUITE = "sid"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
FETCH_SECONDS = 300
HARMLESS = ("rlimit:", "Dumping FAILED")  # what it may not raise, and what it says of every failure
KIND, LINKED = 3, 0  # in CRIU's remap_file_path_entry


def ensure_criu(folder: Path, progress: Callable[[str], None]) -> Path:
    """The program to call: the machine's, or one under `folder`, fetched the first time. Raises EngineError."""
    own = folder / "criu"
    for candidate in (own, Path(shutil.which("criu") or "")):
        if is_new_enough(candidate):
            return candidate
    progress("fetching CRIU, which saves live desktops")
    try:
        _fetch(folder)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", b"") or b""
        raise EngineError(f"CRIU could not be fetched: {error} {told.decode()[-300:]}".strip()) from error
    if not is_new_enough(own):
        raise EngineError(f"the CRIU of Debian {SUITE} does not run here")
    return own


def is_missing(program: Path) -> str:
    """What the program itself says that this machine lacks for it; empty when it says nothing."""
    try:
        done = subprocess.run([program, "check"], capture_output=True, text=True, check=False)
    except OSError as error:
        return f"{program} cannot be started: {error.strerror}"
    return "" if done.returncode == 0 else f"criu check: {(done.stderr or done.stdout).strip()[-200:]}"


def why_not_saved(log: Path) -> str:
    """What kept CRIU from saving, as its log says, and what helps; empty when the log says nothing."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return ""
    program = ""
    for line in lines:
        if found := re.search(r"Dumping task \(pid: \d+ comm: (.+)\)$", line):
            program = found[1]
        error = re.search(r"Error \(([^:]+):\d+\): (.+)", line)
        if error is None or error[2].startswith(HARMLESS):
            continue
        place, said = error[1], error[2][:200]
        if "No space left" in said:
            return "No space left on the disk"
        if place.endswith("sk-unix.c"):
            return "its screen or its agent is connected to from outside; try again once that has ended"
        if held := re.search(r"\(comm (.+)\) found while seizing", said):
            return f"another program has hold of {held[1]}, as a debugger does; end that first"
        return f"{said} (while its program {program} was being saved; close that first)" if program else said
    return ""


def names_given(images: Path) -> int:
    """How many open files CRIU had to give a name, since their own is gone and another is left. It takes these names
    away again from what runs on, and without them nothing starts from the images.

    The file is two magic numbers and then entries, each after its length; one of another kind has a third field.
    """
    try:
        content = (images / "remap-fpath.img").read_bytes()
    except FileNotFoundError:
        return 0
    count, at = 0, 8
    while at < len(content):
        (length,) = struct.unpack_from("<I", content, at)
        entry, at = content[at + 4 : at + 4 + length], at + 4 + length
        count += _numbers(entry).get(KIND, LINKED) == LINKED
    return count


def _numbers(entry: bytes) -> dict[int, int]:
    """Of a protocol buffer that holds only numbers: each field's."""
    words, word, shift = [], 0, 0
    for byte in entry:
        word |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            words.append(word)
            word = shift = 0
    return {key >> 3: number for key, number in zip(words[::2], words[1::2], strict=True)}


def is_new_enough(program: Path) -> bool:
    if not program.is_file():
        return False
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"^Version: (\d+)\.(\d+)", told, re.MULTILINE)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST


def _fetch(folder: Path) -> None:
    if not KEYRING.exists():
        raise EngineError(
            f"CRIU could not be fetched: {KEYRING} is missing (apt-get install debian-archive-keyring)"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=folder) as name:
        work = Path(name)
        _download(work)
        unpacked = work / "unpacked"
        for package in sorted((work / "cache/archives").glob("*.deb")):
            _run(["dpkg-deb", "-x", package, unpacked])
        _install(unpacked, folder)


def _download(work: Path) -> None:
    """Into work/cache/archives: CRIU and all it needs, libc included, since apt is told that nothing is installed."""
    for name in ("lists/partial", "cache/archives/partial", "parts"):
        (work / name).mkdir(parents=True)
    (work / "status").touch()
    (work / "sources.list").write_text(f"deb [signed-by={KEYRING}] {_mirror()} {SUITE} main\n")
    settings = {
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": work / "parts",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": work / "parts",
        "Dir::State::lists": work / "lists",
        "Dir::State::status": work / "status",
        "Dir::Cache": work / "cache",
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "false",
        "Acquire::Languages": "none",
        "Acquire::Retries": "3",
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", "-qq", *(word for key, value in settings.items() for word in ("-o", f"{key}={value}"))]
    _run([*apt, "update"])
    _run([*apt, "-y", "--download-only", "install", "criu"])


def _mirror() -> str:
    """The Debian mirror this machine's apt already uses."""
    folder = Path("/etc/apt/sources.list.d")
    for path in (
        Path("/etc/apt/sources.list"),
        *sorted(folder.glob("*.list")),
        *sorted(folder.glob("*.sources")),
    ):
        text = path.read_text() if path.exists() else ""
        found = re.search(
            r"^(?:deb(?: \[[^\]]*\])?|URIs:) +(https?://\S+/debian/?)(?:\s|$)", text, re.MULTILINE
        )
        if found:
            return found[1]
    raise EngineError("CRIU could not be fetched: apt's sources name no Debian mirror")


def _install(unpacked: Path, folder: Path) -> None:
    """Keep the program, its loader and its libraries, and a command that starts it with them."""
    program = unpacked / "usr/sbin/criu"
    loader = next(path.resolve() for path in unpacked.rglob("ld-linux*.so.*"))
    libraries = next(unpacked.rglob("libnet.so.*")).parent
    listed = _run([loader, "--library-path", libraries, "--list", program])
    root = folder / "root.new"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for path in (program, loader, *re.findall(rf"({re.escape(str(unpacked))}/\S+) \(", listed)):
        shutil.copy(path, root)
    shutil.rmtree(folder / "root", ignore_errors=True)
    root.rename(folder / "root")
    kept = shlex.quote(str(folder / "root"))
    command = folder / "criu.new"
    command.write_text(f'#!/bin/sh\nexec {kept}/{loader.name} --library-path {kept} {kept}/criu "$@"\n')
    command.chmod(0o755)
    command.rename(folder / "criu")


def _run(command: list[str | Path]) -> str:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=FETCH_SECONDS,
    ).stdout.decode()
