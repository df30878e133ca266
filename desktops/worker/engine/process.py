"""One desktop as processes of this machine, for places where no container can run.

There is no isolation but the user account: the desktop runs as the unix user `user`, whose processes are all killed
and whose home folder is restored from a pristine copy between desktops. One slot.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Container, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import host_install
from .base import (
    Desk,
    DeskSpec,
    DeskState,
    Door,
    EngineError,
    EngineFacts,
    Image,
    ImageMissing,
    NoFreeSlot,
    OwnedDesk,
    SweepReport,
)
from .host_install import HOME, PRISTINE, RUNTIME

RUN = Path("/run/deskyard")
RECORD = Path("/run/deskyard-desktop.json")
LOCK = Path("/run/deskyard-desktop.lock")
SHARED = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))  # noqa: S108  (what the last desktop left there goes)
DISPLAY_NUMBER = 0
END_SECONDS = 10.0
FREE_SECONDS = 3600.0  # an attempt may be long


def why_not() -> str:
    """Why the process engine cannot be used on this machine; empty when it can."""
    if os.geteuid() != 0:
        return "only root can start desktops as another user"
    if not shutil.which("apt-get"):
        return "the desktop's packages come from Debian, and this machine has no apt-get"
    try:
        user = host_install.account()
    except EngineError as error:
        return str(error)
    if RUNTIME.exists() and (user is None or RUNTIME.stat().st_uid != user.pw_uid):
        return f"{RUNTIME} belongs to somebody else"
    return ""


class HostInstaller:
    """Stands where a docker client stands when templates are built: they are laid onto this machine."""

    def install(self, name: str, progress: host_install.Progress) -> str:
        """Bring the template up to date; gives the digest that stands for its image id."""
        from desktops.images.build import BuildFailed, recipe_digest

        digest = recipe_digest(name)
        if host_install.installed().get(name) != digest:
            try:
                host_install.lay(name, digest, progress, lambda: _when_free(progress))
            except (EngineError, OSError, subprocess.CalledProcessError) as error:
                raise BuildFailed(str(error)) from error
        return f"sha256:{digest}"

    def close(self) -> None:
        """Nothing to let go of."""


class ProcessDesk:
    """The session of one desktop. Found again by its record after a restart of the worker."""

    restored = False
    image_id = ""  # its template lies on this machine, unpacked

    def __init__(self, record: dict[str, Any], process: subprocess.Popen[bytes] | None = None) -> None:
        self._record = record
        self._process = process

    @property
    def ref(self) -> str:
        return f"process-{self._record['pid']}"

    @property
    def computer(self) -> str:
        return str(self._record["computer"])

    @property
    def started_at(self) -> datetime:
        return datetime.fromisoformat(self._record["started_at"])

    def set_paid_until(self, at: datetime) -> None:
        """Nothing: its own watchdog and its worker end it."""

    def state(self) -> DeskState:
        if _read_record() != self._record:
            return "gone"
        if self._process is not None:
            return "running" if self._process.poll() is None else "exited"
        return "running" if _started(self._record["pid"]) == self._record["ticks"] else "exited"

    def connect(self, timeout: float, door: Door = "agent") -> socket.socket:
        if _read_record() != self._record:
            raise ConnectionRefusedError("the desktop is gone")
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(timeout)
            connection.connect(str(RUN / f"{door}.sock"))
        except BaseException:
            connection.close()
            raise
        return connection

    def logs(self) -> str:
        try:
            return (RUN / "session.log").read_text(errors="replace")[-4000:]
        except OSError:
            return ""

    def reap(self) -> None:
        if self._process is not None:
            self._process.wait(END_SECONDS)


class ProcessEngine:
    def __init__(self, owner: str) -> None:
        problem = why_not()
        if problem:
            raise EngineError(f"the process engine cannot be used: {problem}")
        self._owner = owner
        self._lock = threading.Lock()
        self._desk: ProcessDesk | None = None

    @property
    def owner(self) -> str:
        return self._owner

    def probe(self) -> EngineFacts:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return EngineFacts(
            name="process",
            version="1",
            isolation="None: the desktop is processes of this machine under an account of its own, with this "
            "machine's network, and its home folder is restored before each use.",
            can_fork=False,
            cannot_fork_because="Processes outside a container cannot be saved.",
            slots=1,
            cpus=os.cpu_count() or 1,
            memory_mb=pages >> 20,
        )

    def images(self) -> list[Image]:
        from desktops.images.build import VERSIONS

        return [
            Image(name, VERSIONS[name], f"sha256:{digest}")
            for name, digest in sorted(host_install.installed().items())
            if name in VERSIONS
        ]

    def create(self, spec: DeskSpec) -> Desk:
        name = next((image.name for image in self.images() if image.digest == spec.image), None)
        if name is None:
            raise ImageMissing(f"the template {spec.image} is not installed on this machine: build it")
        with self._lock, closing(_exclusive()):
            if _read_record() is not None:
                raise NoFreeSlot("this machine holds one desktop at a time, and it is in use")
            user = host_install.account()
            if user is None:
                raise EngineError("the desktop's account is gone: build the template again")
            _end_all(user.pw_uid)
            self._restore(name, user.pw_uid, user.pw_gid)
            return self._start(spec, name, user.pw_uid, user.pw_gid)

    def find(self, computer: str) -> Desk | None:
        record = _read_record()
        if record is None or record["owner"] != self._owner or record["computer"] != computer:
            return None
        if self._desk is not None and self._desk.computer == computer:
            return self._desk
        return ProcessDesk(record)

    def remove(self, desk: Desk) -> datetime:
        with self._lock, closing(_exclusive()):
            record = _read_record()
            if record is not None and record["computer"] == desk.computer:
                self._end()
            return datetime.now(UTC)

    def list_owned(self) -> list[OwnedDesk]:
        record = _read_record()
        if record is None or record["owner"] != self._owner:
            return []
        desk = self.find(record["computer"])
        return [OwnedDesk(desk.ref, desk.computer, desk.state())] if desk else []

    def sweep(self, keep: Container[str]) -> SweepReport:
        removed, left, problems = [], [], []
        for owned in self.list_owned():
            desk = self.find(owned.computer)
            if owned.computer in keep or desk is None:
                continue
            try:
                self.remove(desk)
            except EngineError as error:
                left.append(owned.computer)
                problems.append(str(error))
            else:
                removed.append(owned.computer)
        return SweepReport(at=datetime.now(UTC), removed=removed, left=left, problems=problems)

    def close(self) -> None:
        """Nothing to let go of."""

    def _end(self) -> None:
        user = host_install.account()
        if user is not None:
            _end_all(user.pw_uid)
        if self._desk is not None:
            self._desk.reap()
            self._desk = None
        RECORD.unlink(missing_ok=True)

    def _restore(self, name: str, uid: int, gid: int) -> None:
        """A home folder as new, and nothing of the last desktop anywhere else."""
        socket_path = Path(f"/tmp/.X11-unix/X{DISPLAY_NUMBER}")  # noqa: S108  (where X servers listen)
        for folder in SHARED:
            for entry in folder.iterdir() if folder.is_dir() else ():
                if entry.lstat().st_uid == uid:
                    _delete(entry)
        if socket_path.exists():
            if socket_path.lstat().st_uid != uid:
                raise EngineError(f"display :{DISPLAY_NUMBER} of this machine is somebody else's")
            socket_path.unlink()
        x_folder = socket_path.parent
        x_folder.mkdir(exist_ok=True)
        x_folder.chmod(0o1777)
        _delete(HOME)
        subprocess.run(["cp", "-a", "--reflink=auto", str(PRISTINE / name), str(HOME)], check=True)
        for folder in (RUNTIME, RUN):
            _delete(folder)
            folder.mkdir(parents=True, mode=0o700)
            os.chown(folder, uid, gid)

    def _start(self, spec: DeskSpec, name: str, uid: int, gid: int) -> ProcessDesk:
        environment = {
            "HOME": str(HOME),
            "DISPLAY": f":{DISPLAY_NUMBER}",
            "DESKYARD_SILENCE_SECONDS": f"{spec.silence_seconds:g}",
        }
        if name != "basic":
            environment["DESKYARD_BIN"] = str(host_install.ROOT / f"bin-{name}")
        if spec.paid_until is not None:
            environment["DESKYARD_PAID_UNTIL"] = f"{spec.paid_until.timestamp():.3f}"
        command = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--no-new-privs"]
        command += ["--inh-caps=-all", str(host_install.ROOT / "guest" / "session.sh")]
        started_at = datetime.now(UTC)
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=HOME,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        record = {
            "computer": spec.computer,
            "owner": self._owner,
            "pid": process.pid,
            "ticks": _started(process.pid),
            "started_at": started_at.isoformat(),
        }
        temporary = RECORD.with_suffix(".new")
        temporary.write_text(json.dumps(record))
        temporary.rename(RECORD)
        self._desk = ProcessDesk(record, process)
        return self._desk


def _exclusive() -> Any:
    """An open, locked file: two workers never make or end a desktop at the same time."""
    file = LOCK.open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


@contextmanager
def _when_free(progress: host_install.Progress) -> Iterator[None]:
    """Holds the lock at a moment when no desktop lives. Raises EngineError when none such comes for long."""
    end, told = time.monotonic() + FREE_SECONDS, 0.0
    while True:
        with closing(_exclusive()):
            if _read_record() is None:
                yield
                return
        if time.monotonic() > end:
            raise EngineError(
                f"this machine's one desktop was in use for {FREE_SECONDS:g} s: try again later"
            )
        if time.monotonic() - told > 5:
            told = time.monotonic()
            progress("waiting until this machine's one desktop is free")
        time.sleep(0.2)  # between two probes


def _read_record() -> dict[str, Any] | None:
    try:
        return dict(json.loads(RECORD.read_text()))
    except FileNotFoundError:
        return None


def _started(pid: int) -> int:
    """When that process was started, in clock ticks since boot; 0 when there is none. Tells a pid used again."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] == "Z" else int(fields[19])


def _processes_of(uid: int) -> list[int]:
    """Living processes of that user; zombies are for their parent to take in."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            status = (entry / "status").read_text()
        except OSError:
            continue
        lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        if int(lines["Uid"].split()[0]) == uid and not lines["State"].strip().startswith("Z"):
            found.append(int(entry.name))
    return found


def _end_all(uid: int) -> None:
    """Kill every process of that user, and see them gone. Raises EngineError."""
    end = time.monotonic() + END_SECONDS
    while living := _processes_of(uid):
        if time.monotonic() > end:
            raise EngineError(f"processes of the last desktop do not end: {living[:10]}")
        for pid in living:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)  # between two probes


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
