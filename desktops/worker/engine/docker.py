"""Desktops as containers, on Docker or on Podman, which answers Docker's API too."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Container, Iterator
from datetime import UTC, datetime
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from . import images
from .base import (
    COMPUTER_LABEL,
    OWNER_LABEL,
    RECIPE_LABEL,
    TEMPLATE_LABEL,
    Desk,
    DeskSpec,
    DeskState,
    Door,
    EngineError,
    EngineFacts,
    Image,
    ImageMissing,
    OwnedDesk,
    SweepReport,
)
from .dial import dial, product

log = logging.getLogger(__name__)

RUN = ("run", "deskyard")
CALL_SECONDS = 60
LIST_TRIES, LIST_AGAIN_SECONDS = 5, 0.2
SESSION_LOG = (*RUN, "session.log")
PIDS = 1024
MEMORY_PER_SLOT_MB = 3072
OPEN_FILES = 4096
# Podman only: an identity map of user ids, without which CRIU cannot dump a container on a host that lacks
# CAP_SYS_RESOURCE. It is no security boundary; the desktop has no capability either way.
IDENTITY_MAP = "auto:size=65536,uidmapping=0:0:65536,gidmapping=0:0:65536"
STATES: dict[str, DeskState] = {
    "created": "created",
    "configured": "created",
    "initialized": "created",
    "running": "running",
    "paused": "running",
    "stopping": "running",
    "exited": "exited",
    "stopped": "exited",
    "dead": "exited",
}


class ContainerDesk:
    """One container. Asked about by its id, so that a name used again is never mistaken for it."""

    def __init__(
        self, client: docker.DockerClient, ref: str, computer: str, started_at: datetime, image_id: str
    ) -> None:
        self._client = client
        self._ref = ref
        self._computer = computer
        self._started_at = started_at
        self.image_id = f"sha256:{image_id.removeprefix('sha256:')}" if image_id else ""
        self.restored = False
        self._pid = 0

    @property
    def ref(self) -> str:
        return self._ref

    @property
    def computer(self) -> str:
        return self._computer

    @property
    def started_at(self) -> datetime:
        return self._started_at

    def set_paid_until(self, at: datetime) -> None:
        """Nothing: its own watchdog and its worker end it."""

    def state(self) -> DeskState:
        state = self._inspect()
        return STATES.get(str(state.get("Status", "")), "exited") if state is not None else "gone"

    def connect(self, timeout: float, door: Door = "agent") -> socket.socket:
        """Through /proc/PID/root: no port, no network, and no link in the desktop is followed."""
        try:
            return connect_in(self._pid or self.pid(), timeout, door)
        except (FileNotFoundError, ProcessLookupError, ConnectionRefusedError):
            return connect_in(self.pid(), timeout, door)  # it may have been restored with another pid

    def logs(self) -> str:
        try:
            pid = self._pid or self.pid()
            with open_in(pid, SESSION_LOG, os.O_RDONLY) as descriptor:
                size = os.fstat(descriptor).st_size
                return os.pread(descriptor, 4000, max(0, size - 4000)).decode(errors="replace")
        except OSError:
            return ""

    def pid(self) -> int:
        """Process id, on this host, of the desktop's first process. Raises ConnectionError when there is none."""
        try:
            state = self._inspect()
        except EngineError as error:
            raise ConnectionError(str(error)) from error
        self._pid = int((state or {}).get("Pid") or 0)
        if not self._pid:
            raise ConnectionRefusedError("the desktop's container does not run")
        return self._pid

    def _inspect(self) -> dict[str, Any] | None:
        try:
            return dict(self._client.api.inspect_container(self._ref)["State"])
        except NotFound:
            return None
        except (DockerException, OSError) as error:
            raise EngineError(f"the engine does not say how {self._ref[:12]} is: {error}") from error


class DockerEngine:
    """`owner` is this worker's own id: two workers on one engine never touch each other's desktops."""

    def __init__(self, url: str, owner: str, slots: int | None = None, *, cannot_save: str = "") -> None:
        self._owner = owner
        self._cannot_save = cannot_save
        self._slots = slots
        self.url = url
        try:
            _knock(url)
            self._client = dial(url, CALL_SECONDS)
            self._name, self._version = product(self._client)
        except (DockerException, OSError) as error:
            raise EngineError(f"no container engine answers at {url}: {error}") from error
        self.is_podman = self._name == "podman"
        self._lock = threading.Lock()

    @property
    def owner(self) -> str:
        return self._owner

    @property
    def client(self) -> docker.DockerClient:
        return self._client

    def probe(self) -> EngineFacts:
        memory_mb = (
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
        )  # desktops are on this machine
        cpus = os.cpu_count() or 1
        slots = self._slots or max(1, min(cpus * 2, memory_mb // MEMORY_PER_SLOT_MB))
        return EngineFacts(
            name=self._name,
            version=self._version,
            isolation="Each desktop is a container of its own: no capabilities, no network unless its template "
            "opens it, nothing of the host mounted, limits on memory, processors and processes.",
            can_fork=False,
            cannot_fork_because=self._cannot_save,
            slots=slots,
            cpus=cpus,
            memory_mb=memory_mb,
        )

    def images(self) -> list[Image]:
        try:
            summaries = self._summaries()
        except (DockerException, OSError) as error:
            raise EngineError(f"the engine does not list its images: {error}") from error
        found = set()
        for summary in summaries:
            # By label, not by tag: an older image that a run is pinned to stays when its tag has moved on.
            labels = summary.get("Labels") or {}
            name, _, version = labels.get(TEMPLATE_LABEL, "").partition(":")
            if RECIPE_LABEL in labels and version.isdigit():
                found.add(Image(name, int(version), f"sha256:{labels[RECIPE_LABEL]}"))
        return sorted(found, key=lambda image: (image.name, image.version))

    def create(self, spec: DeskSpec, command: list[str] | None = None) -> ContainerDesk:
        """`command` in place of the image's own session, for a probe."""
        name = f"deskyard-{spec.computer}"
        try:
            config = self._config(spec) | ({"Cmd": command} if command else {})
            made = self._client.api.create_container_from_config(config, name)
        except ImageNotFound as error:
            raise ImageMissing(
                f"the image {spec.image} is not on this machine: build the template"
            ) from error
        except (DockerException, OSError) as error:
            self._discard(name)
            raise EngineError(f"the engine made no container: {_words(error)}") from error
        started_at = datetime.now(UTC)
        try:
            self._client.api.start(made["Id"])
        except BaseException as error:
            self._discard(made["Id"])
            if isinstance(error, (DockerException, OSError)):
                raise EngineError(f"the engine did not start the container: {_words(error)}") from error
            raise
        return ContainerDesk(self._client, made["Id"], spec.computer, started_at, config["Image"])

    def find(self, computer: str) -> Desk | None:
        for box in self._boxes():
            if box["Labels"].get(COMPUTER_LABEL) == computer:
                started = datetime.fromtimestamp(_created(box), UTC)
                return ContainerDesk(self._client, box["Id"], computer, started, box.get("ImageID") or "")
        return None

    def remove(self, desk: Desk) -> datetime:
        self._remove(desk.ref)
        return datetime.now(UTC)

    def make_image(self, desk: Desk, name: str, version: int) -> Image:
        """It stands still meanwhile."""
        assert isinstance(desk, ContainerDesk)
        with images.paused(self._client, desk.ref) as found:
            digest = images.digest_of(desk.image_id, images.upper_of(found))
            return images.commit(self.url, desk.ref, name=name, version=version, digest=digest)

    def forget_image(self, digest: str) -> None:
        images.forget(self._client, digest)

    def list_owned(self) -> list[OwnedDesk]:
        return [
            OwnedDesk(
                ref=box["Id"],
                computer=box["Labels"].get(COMPUTER_LABEL, ""),
                state=STATES.get(str(box.get("State", "")).lower(), "exited"),
            )
            for box in self._boxes()
        ]

    def sweep(self, keep: Container[str]) -> SweepReport:
        removed, left, problems = [], [], []
        for desk in self.list_owned():
            if desk.computer in keep:
                continue
            try:
                self._remove(desk.ref)
            except EngineError as error:
                left.append(desk.computer or desk.ref)
                problems.append(str(error))
            else:
                removed.append(desk.computer or desk.ref)
        return SweepReport(at=datetime.now(UTC), removed=removed, left=left, problems=problems)

    def close(self) -> None:
        self._client.close()

    def _config(self, spec: DeskSpec) -> dict[str, Any]:
        environment = [f"DESKYARD_SILENCE_SECONDS={spec.silence_seconds:g}"]
        if spec.paid_until is not None:
            environment.append(f"DESKYARD_PAID_UNTIL={spec.paid_until.timestamp():.3f}")
        memory = spec.memory_mb << 20
        host: dict[str, Any] = {
            "NetworkMode": "none" if spec.egress == "none" else "bridge",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Memory": memory,
            "MemorySwap": memory,
            "PidsLimit": PIDS,
            "NanoCpus": int(spec.cpus * 1e9),
            "Tmpfs": {"/tmp": "mode=1777,size=1g,exec"},  # noqa: S108  (inside the desktop)
            "ShmSize": 256 << 20,
            "Ulimits": [
                {"Name": name, "Soft": OPEN_FILES, "Hard": OPEN_FILES} for name in ("nofile", "nproc")
            ],
            "LogConfig": {"Type": "none"},
        }
        if self.is_podman:
            host["UsernsMode"] = IDENTITY_MAP
        labels = {**spec.labels, OWNER_LABEL: self._owner, COMPUTER_LABEL: spec.computer}
        return {
            "Image": self.image_id(spec.image),
            "User": "1000:1000",
            "Hostname": "desk",
            "Labels": labels,
            "Env": environment,
            "HostConfig": host,
        }

    def image_id(self, digest: str) -> str:
        """The id of the image made from that recipe; an id stands for itself. Never by tag: a tag may move."""
        made = self._summaries(filters={"label": f"{RECIPE_LABEL}={digest.removeprefix('sha256:')}"})
        found = str(made[0]["Id"]) if made else digest
        return found.removeprefix("sha256:") if self.is_podman else found

    def _summaries(self, **options: Any) -> list[dict[str, Any]]:
        """Podman lists no images at all at the moment when one of them is being removed: ask again."""
        for left in reversed(range(LIST_TRIES)):
            try:
                return list(self._client.api.images(**options))
            except APIError as error:
                if not left or not error.is_server_error():
                    raise
            time.sleep(LIST_AGAIN_SECONDS)
        raise AssertionError("the last try returns or raises")

    def _boxes(self) -> list[dict[str, Any]]:
        """Our containers in whatever state; one that goes away meanwhile is simply not listed."""
        filters = {"label": f"{OWNER_LABEL}={self._owner}"}
        try:
            return list(self._client.api.containers(all=True, filters=filters))
        except (DockerException, OSError) as error:
            raise EngineError(f"the engine does not list our desktops: {error}") from error

    def _remove(self, ref: str) -> None:
        """Remove and see it gone. A failed try is repeated once after telling runc to let go of it."""
        problem: Exception | None = None
        for attempt in range(3):
            try:
                self._client.api.remove_container(ref, force=True, v=True)
            except NotFound:
                return
            except (DockerException, OSError) as error:
                problem = error
                if self.is_podman and attempt == 0:
                    # Podman may take a live container for one that was never started.
                    subprocess.run(["runc", "delete", "-f", ref], capture_output=True, check=False)
            if self._gone(ref):
                return
        raise EngineError(f"the desktop {ref[:12]} could not be removed: {problem or 'it is still there'}")

    def _gone(self, ref: str, seconds: float = 10.0) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                self._client.api.inspect_container(ref)
            except NotFound:
                return True
            except (DockerException, OSError) as error:
                log.warning("cannot see whether %s is gone: %s", ref[:12], error)
                return False
            time.sleep(0.02)  # between two probes
        return False

    def _discard(self, ref: str) -> None:
        """Take back a container that did not come to life; the sweep finds what even this cannot remove."""
        with contextlib.suppress(EngineError):
            self._remove(ref)


@contextlib.contextmanager
def open_in(pid: int, path: tuple[str, ...], flags: int) -> Iterator[int]:
    """A descriptor of a file in that process's own root, walked name by name without following any link:
    a link a desktop laid there could lead into the host."""
    current = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY)
    try:
        for name in path[:-1]:
            below = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=current)
            os.close(current)
            current = below
        last = os.open(path[-1], flags | os.O_NOFOLLOW, dir_fd=current)
        os.close(current)
        current = last
        yield current
    finally:
        os.close(current)


def connect_in(pid: int, timeout: float, door: Door) -> socket.socket:
    """Connect to that door's socket in the root of that process."""
    with open_in(pid, (*RUN, f"{door}.sock"), os.O_PATH) as descriptor:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            raise ConnectionRefusedError(f"what is at the place of {door}.sock is no socket")
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(timeout)
            connection.connect(f"/proc/self/fd/{descriptor}")
        except BaseException:
            connection.close()
            raise
    return connection


def _knock(url: str) -> None:
    """Raise OSError when nobody listens there: the SDK would leave its own try at it unclosed."""
    if url.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(CALL_SECONDS)
            probe.connect(url.removeprefix("unix://"))


def _created(box: dict[str, Any]) -> float:
    """Podman and Docker give seconds; some Podman versions a text."""
    value = box.get("Created", 0)
    if isinstance(value, (int, float)):
        return float(value)
    return datetime.fromisoformat(str(value)).timestamp()


def _words(error: Exception) -> str:
    return str(error.explanation or error) if isinstance(error, APIError) else str(error)
