"""A Podman of our own: configuration, graph and service under one folder, started and stopped by us.

Nothing here touches the system's Podman: two environment variables point at our files. The settings are those
with which a desktop can be checkpointed (overlay index on, runc, cgroupfs).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from .base import EngineError

START_SECONDS = 20.0
STOP_SECONDS = 10.0
HELPERS_SECONDS = 5.0

_STORAGE = """[storage]
driver = "overlay"
graphroot = "{home}/graph"
runroot = "{home}/run"
[storage.options.overlay]
mountopt = "index=on,nfs_export=on"
"""

_CONTAINERS = """[containers]
annotations = ["org.criu.config={home}/criu.conf"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
compat_api_enforce_docker_hub = false
tmp_dir = "{home}/run/libpod"
hooks_dir = ["{home}/hooks"]
[network]
network_backend = "netavark"
"""

CRIU_SETTINGS = "ghost-limit 1073741824\nfile-locks\nlink-remap\ntcp-close\n"

# A desktop without a network still needs lo, and a restored one gets a namespace where lo is down. One that has
# another link (a network was asked for, or it is the host's own) is left as it is.
LOOPBACK = """#!/bin/sh
pid=$(sed -nE 's/.*"pid":([0-9]+).*/\\1/p')
exec nsenter -t "$pid" -n sh -ec '
if ip -o link show up | grep -qv ": lo:"; then exit 0; fi
ip link set lo up
ip addr replace 10.0.2.15/32 dev lo
ip route replace default dev lo'
"""

_POLICY = '{"default": [{"type": "insecureAcceptAnything"}]}\n'


class PodmanService:
    """`podman system service` on a socket under `home`. A second one on the same home uses the first."""

    def __init__(self, home: Path) -> None:
        self.home = home.resolve()
        self.socket = self.home / "podman.sock"
        self._pid_file = self.home / "service.pid"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def environment(self) -> dict[str, str]:
        """What a podman command needs in its environment to work on this home."""
        return {
            **os.environ,
            "CONTAINERS_CONF": str(self.home / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.home / "storage.conf"),
            "TMPDIR": str(self.home / "tmp"),
        }

    def configure(self) -> None:
        hook = {
            "version": "1.0.0",
            "hook": {"path": f"{self.home}/loopback.sh"},
            "when": {"always": True},
            "stages": ["prestart"],
        }
        files = {
            "storage.conf": _STORAGE.format(home=self.home),
            "containers.conf": _CONTAINERS.format(home=self.home),
            "criu.conf": CRIU_SETTINGS,
            "hooks/loopback.json": json.dumps(hook),
            "loopback.sh": LOOPBACK,
        }
        for name, text in files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (self.home / "loopback.sh").chmod(0o755)
        (self.home / "tmp").mkdir(mode=0o700, exist_ok=True)
        policy = Path("/etc/containers/policy.json")
        if not policy.exists():  # Podman refuses to load any image without one
            policy.parent.mkdir(parents=True, exist_ok=True)
            policy.write_text(_POLICY)

    def start(self) -> None:
        """Start the service and wait until it answers. Raises EngineError with the service's own words."""
        if self.answers():
            return
        if not shutil.which("podman"):
            raise EngineError("podman is not installed: apt-get install podman runc netavark")
        self.configure()
        self.socket.unlink(missing_ok=True)
        log = self.home / "service.log"
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["podman", "system", "service", "--time", "0", self.url],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                start_new_session=True,
            )
        self._pid_file.write_text(str(self._process.pid))
        end = time.monotonic() + START_SECONDS
        while not self.answers():
            ended = self._process.poll()
            if ended is not None or time.monotonic() > end:
                how = f"ended with {ended}" if ended is not None else f"did not answer in {START_SECONDS:g} s"
                self.stop()
                raise EngineError(f"podman system service {how}: {_tail(log)}")
            time.sleep(0.05)  # between two probes

    def answers(self) -> bool:
        import docker

        if not self.socket.exists():
            return False
        try:
            client = docker.DockerClient(base_url=self.url, version="1.41", timeout=10)
        except (docker.errors.DockerException, OSError):
            return False
        try:
            return bool(client.ping())
        except (docker.errors.DockerException, OSError):
            return False
        finally:
            client.close()

    def stop(self) -> None:
        """End the service that this or an earlier object of this home started, and its leftover mounts."""
        pid = self._process.pid if self._process else self._recorded_pid()
        if pid is not None:
            _end(pid, self._process)
        self._process = None
        self._pid_file.unlink(missing_ok=True)
        self.socket.unlink(missing_ok=True)
        self._await_helpers()
        for mount in _mounts_under(self.home):
            subprocess.run(["umount", "--lazy", mount], capture_output=True, check=False)

    def _await_helpers(self) -> None:
        """Podman's helpers clean up after each container and mount the graph once more: let them end first."""
        end = time.monotonic() + HELPERS_SECONDS
        graph = f"{self.home}/graph".encode()
        while time.monotonic() < end and any(graph in command for command in _commands()):
            time.sleep(0.05)  # between two probes

    def _recorded_pid(self) -> int | None:
        """The service's process id, if the process of that id is still that service."""
        try:
            pid = int(self._pid_file.read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if str(self.socket).encode() in command else None


def _end(pid: int, process: subprocess.Popen[bytes] | None) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, sign)
        except ProcessLookupError:
            return
        end = time.monotonic() + STOP_SECONDS
        while time.monotonic() < end:
            if process is not None and process.poll() is not None:
                return
            if process is None and not Path(f"/proc/{pid}").exists():
                return
            time.sleep(0.05)  # between two probes


def _commands() -> Iterator[bytes]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                yield (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it ended meanwhile


def _mounts_under(folder: Path) -> list[str]:
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    points = [re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), point) for point in points]
    return sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True)


def _tail(path: Path, size: int = 600) -> str:
    try:
        return path.read_text(errors="replace").strip()[-size:]
    except OSError:
        return "no log"
