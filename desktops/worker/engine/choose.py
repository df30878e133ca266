"""From the worker's setting to an engine."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from urllib.parse import parse_qs, urlencode

from .base import DISK_MB, Engine, EngineError

RUNC = "runc+"
NOT_TRIED = "Whether live desktops can be saved here was not tried: `make up` and `make worker` try it."
SOCKETS = ("/var/run/docker.sock", "/run/podman/podman.sock")


def open_engine(address: str, home: Path, slots: int | None = None, *, disk_mb: int = DISK_MB) -> Engine:
    """`address` is a Docker-compatible socket address, or process, fake, fake+saving or auto. Raises EngineError.

    auto: DOCKER_HOST, else the first of Docker's and Podman's usual sockets that is there.
    ADDRESS?cannot_save=WHY: the same, with the reason why desktops are not put on runc, found by trying.
    runc+ADDRESS?criu=PROGRAM: images from the engine at that address, desktops straight on runc.
    """
    owner = owner_of(home)
    if address == "process":
        from .process import ProcessEngine

        return ProcessEngine(owner)
    if address in ("fake", "fake+saving"):
        from desktops.worker.testing_desktop import FakeEngine, FakeSavingEngine

        return FakeEngine(owner=owner) if address == "fake" else FakeSavingEngine(owner=owner)
    from .docker import DockerEngine

    if address.startswith(RUNC):
        from .runc.engine import RuncEngine

        socket, criu = parse_runc(address)
        return RuncEngine(DockerEngine(socket, owner, slots), home / "desktops", criu, disk_mb=disk_mb)
    socket, _, query = (usual_address() if address == "auto" else address).partition("?")
    cannot_save = parse_qs(query).get("cannot_save", [""])[0]
    return DockerEngine(socket, owner, slots, cannot_save=cannot_save or NOT_TRIED)


def containers_address(socket: str, cannot_save: str) -> str:
    return f"{socket}?{urlencode({'cannot_save': cannot_save})}"


def runc_address(socket: str, criu: Path) -> str:
    return f"{RUNC}{socket}?{urlencode({'criu': str(criu)})}"


def parse_runc(address: str) -> tuple[str, Path]:
    """The container engine's socket, and the program that saves and restores. Raises EngineError."""
    socket, _, query = address.removeprefix(RUNC).partition("?")
    criu = parse_qs(query).get("criu", [""])[0]
    if not socket or not criu:
        raise EngineError(f"{address} should be {RUNC}unix:///path/of.sock?criu=/path/of/criu")
    return socket, Path(criu)


def socket_of(address: str) -> str:
    """Where the images are."""
    return parse_runc(address)[0] if address.startswith(RUNC) else address.partition("?")[0]


def usual_address() -> str:
    """Where this machine's container engine should be. Raises EngineError when nothing is there."""
    given = os.environ.get("DOCKER_HOST", "")
    if given:
        return given
    for path in SOCKETS:
        if Path(path).is_socket():
            return f"unix://{path}"
    raise EngineError(
        "there is no container engine here: start Docker or Podman, set DOCKER_HOST, or run `make up`, "
        "which brings one"
    )


def owner_of(home: Path) -> str:
    """This worker's own mark on its desktops. It stays over restarts, so that a sweep finds what was left."""
    path = home / "owner"
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        home.mkdir(parents=True, exist_ok=True)
        owner = uuid.uuid4().hex
        temporary = path.with_suffix(".new")
        temporary.write_text(owner)
        temporary.rename(path)
        return owner
