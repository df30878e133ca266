"""Commands and files, as the desktop's user."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .httpd import Refused

MOST_READ = 64 << 20  # bytes; nothing a task makes is larger

OUTPUT_LIMIT = 32 << 20  # bytes of each stream that are handed back


@dataclass(frozen=True)
class Completed:
    returncode: int
    stdout: bytes
    stderr: bytes
    timed_out: bool


def argv_of(command: str | Sequence[str]) -> list[str]:
    return ["/bin/bash", "-c", command] if isinstance(command, str) else [str(part) for part in command]


def run(
    command: str | Sequence[str],
    timeout: float,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    data: bytes | None = None,
) -> Completed:
    """Run to the end, or until `timeout` seconds are over: then the command and its children are killed.

    Output goes to files, not pipes, so that a child left in the background does not hold the answer up.
    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        if data is not None:
            stdin.write(data)
            stdin.seek(0)
        process = subprocess.Popen(
            argv_of(command),
            cwd=cwd or os.environ["HOME"],
            env={**os.environ, **(env or {})},
            stdin=stdin if data is not None else subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        timed_out = False
        try:
            returncode = process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
            kill_group(process.pid)
            returncode = process.wait()
        return Completed(returncode, _content(out), _content(err), timed_out)


def kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _content(file: IO[bytes]) -> bytes:
    # The child shares the file's offset, so read from the start by position.
    size = min(os.fstat(file.fileno()).st_size, OUTPUT_LIMIT)
    return os.pread(file.fileno(), size, 0)


def launch(command: str | Sequence[str], cwd: str | None = None, env: Mapping[str, str] | None = None) -> int:
    """Start it in a session of its own and leave it running."""
    process = subprocess.Popen(
        argv_of(command),
        cwd=cwd or os.environ["HOME"],
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # Somebody has to take in its exit status.
    threading.Thread(target=process.wait, name=f"reap-{process.pid}", daemon=True).start()
    return process.pid


def resolve(path: str) -> Path:
    """An absolute path; `~` and relative ones are the user's home's."""
    return Path(os.environ["HOME"], os.path.expanduser(path))


def read(path: str) -> bytes:
    """A plain file of MOST_READ bytes at most. Raises Refused for any other: a pipe never ends, nor does /dev/zero."""
    target = resolve(path)
    with open(os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        facts = os.fstat(file.fileno())
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(21, "Is a directory", str(target))
        if not stat.S_ISREG(facts.st_mode):
            raise Refused(f"not a plain file: {target}")
        data = file.read(MOST_READ + 1) if facts.st_size <= MOST_READ else b""
        if facts.st_size > MOST_READ or len(data) > MOST_READ:
            raise Refused(f"larger than {MOST_READ >> 20} MiB: {target}")
        return data


def write(path: str, data: bytes, mode: int) -> None:
    """Write a whole file under another name, then move it into place: nobody reads half of it."""
    target = resolve(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        raise IsADirectoryError(21, "Is a directory", str(target))
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".deskyard-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, mode)
        os.replace(temporary, os.path.realpath(target))
    except BaseException:
        os.unlink(temporary)
        raise


def entries(path: str) -> list[dict[str, Any]]:
    """Names in a folder, sorted, with what they are and their size in bytes."""
    found = []
    for entry in sorted(resolve(path).iterdir()):
        try:
            status = entry.stat()
        except FileNotFoundError:
            found.append({"name": entry.name, "kind": "link", "size": 0})
            continue
        regular, folder = stat.S_ISREG(status.st_mode), stat.S_ISDIR(status.st_mode)
        kind = "file" if regular else "folder" if folder else "other"
        found.append({"name": entry.name, "kind": kind, "size": status.st_size if regular else 0})
    return found
