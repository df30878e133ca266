"""The runc command: start, end, save and restore what is in a bundle, and see whether it lives."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from desktops.worker.engine.base import EngineError

from . import leftovers
from .criu import why_not_saved

CALL_SECONDS = 60.0
END_SECONDS = 10.0


class Runc:
    """One `--root`: names are unique in it, and nothing else on this machine uses it."""

    def __init__(self, root: Path, criu: Path) -> None:
        self.root = root
        self._logs = root.parent / "logs"
        self._logs.mkdir(parents=True, exist_ok=True)
        self._environment = {**os.environ, "PATH": f"{criu.parent}:{os.environ.get('PATH', '')}"}

    def version(self) -> str:
        """As in 1.1.5; empty when it cannot be told."""
        told = subprocess.run(["runc", "--version"], capture_output=True, text=True, check=False).stdout
        found = re.search(r"runc version ([0-9.]+)", told)
        return found[1] if found else ""

    def names(self) -> list[str]:
        return sorted(path.name for path in self.root.iterdir()) if self.root.exists() else []

    def run(self, name: str, bundle: Path) -> None:
        self._call("run", "--detach", "--bundle", str(bundle), name)

    @contextmanager
    def paused(self, name: str) -> Iterator[None]:
        """Nothing in it runs meanwhile. Raises EngineError."""
        try:
            for last in (False, False, True):
                try:
                    self._call("pause", name)
                    break
                except EngineError:  # on a busy machine not all of it stops in the time that runc gives it
                    if last:
                        raise
                    leftovers.thaw(name)
            yield
        finally:
            leftovers.thaw(name)

    def save(self, name: str, images: Path) -> None:
        """Write its processes to `images`; they stay as they are. Raises EngineError."""
        images.mkdir(mode=0o700)
        where = ["--image-path", str(images), "--work-path", str(images)]
        try:
            self._call("checkpoint", "--leave-running", "--file-locks", *where, name)
        except EngineError as error:
            if why := why_not_saved(images / "dump.log"):
                raise EngineError(f"the desktop could not be saved: {why}") from error
            raise
        finally:
            # runc leaves it without x, and CRIU, restoring in a user namespace, needs that.
            images.chmod(0o700)

    def restore(self, name: str, bundle: Path, images: Path) -> None:
        where = [
            "--image-path",
            str(images),
            "--work-path",
            str(bundle / "work-criu"),
            "--bundle",
            str(bundle),
        ]
        self._call("restore", "--detach", "--file-locks", *where, name)

    def pid(self, name: str) -> int:
        """Process id of its first process while that lives, else 0."""
        try:
            state = json.loads((self.root / name / "state.json").read_bytes())
            pid = int(state["init_process_pid"])
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError, json.JSONDecodeError):
            return 0
        started = int(fields[19]) == int(state["init_process_start"])  # else the id has been given to another
        return pid if started and fields[0] not in (b"Z", b"X") else 0

    def end(self, name: str) -> None:
        """Kill everything in it, see it gone, let runc forget it. Raises EngineError."""
        leftovers.end_calls(self.root, name)
        leftovers.thaw(name)  # CRIU stops what it saves, and nothing that is stopped can be killed
        pid = self.pid(name)
        if pid:
            _kill(pid, name)
        leftovers.end_group(name)
        notes = self.root / name
        if notes.exists():
            leftovers.unmount_below(notes)  # runc would walk into what CRIU has mounted there
            try:
                self._call("delete", "--force", name)
            except EngineError:
                if self.pid(name):
                    raise
            leftovers.remove(notes)  # of a start that was broken off half way runc forgets only some

    def _call(self, verb: str, *arguments: str) -> None:
        # What it starts keeps runc's own output files, so its words go to a file of their own.
        with tempfile.NamedTemporaryFile(prefix="call-", dir=self._logs) as log:
            command = ["runc", "--root", str(self.root), "--log", log.name, verb, *arguments]
            try:
                status = _status_of(command, self._environment)
            except TimeoutError as error:
                raise EngineError(f"runc {verb} took over {CALL_SECONDS:g} s") from error
            except OSError as error:
                raise EngineError(f"runc cannot be started: {error}") from error
            if status:
                told = log.read().decode(errors="replace").strip() or f"status {status}"
                raise EngineError(f"runc {verb} failed: {told[-600:]}")


def _status_of(command: list[str], environment: dict[str, str]) -> int:
    """Run it to its end, of which the kernel tells at once: subprocess's own timeout looks every 50 ms, and a restore
    takes only some more. Raises OSError; TimeoutError, with it killed."""
    null = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdin=null, stdout=null, stderr=null) as process:
        descriptor = os.pidfd_open(process.pid)
        try:
            if not select.select([descriptor], [], [], CALL_SECONDS)[0]:
                process.kill()
                raise TimeoutError
        finally:
            os.close(descriptor)
    return process.returncode


def _kill(pid: int, name: str) -> None:
    """The end of a pid namespace's first process is the end of all in it."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        if not select.select([descriptor], [], [], END_SECONDS)[0]:
            raise EngineError(f"the desktop {name[:8]} does not end")
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)
