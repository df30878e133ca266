"""Find, or bring, something that can make desktops on this machine.

1. The Docker or Podman of DOCKER_HOST, or at its usual socket, if a container really starts there.
2. A Podman of our own, from apt where it is not installed, its service a child of ours under `home`/engine.
3. The process engine, where no container can run at all.

On top of the first two, desktops are put straight on runc where a live one can really be saved and restored: that is
what starts them quickly. Where it cannot, they are containers of the engine.

What fails on the way is kept as a sentence: what, why, and what to do.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import docker
from docker.errors import DockerException, ImageNotFound

from .base import DeskSpec, EngineError
from .choose import SOCKETS, containers_address, open_engine, runc_address, socket_of
from .dial import dial
from .docker import ContainerDesk, DockerEngine, open_in
from .podman import PodmanService
from .process import HostInstaller, why_not
from .runc.criu import ensure_criu
from .runc.engine import RuncEngine

Progress = Callable[[str], None]
LONGEST = 500  # reason why desktops cannot be saved
PODMAN_PACKAGES = ("podman", "runc", "netavark", "iproute2", "iptables", "debootstrap")
CAP_SYS_ADMIN = 21
BUILD_SECONDS = 3600
PROBE_PROGRAM = ("bin", "sleep")


class ProvisionError(Exception):
    """Nothing on this machine can make desktops. `what_to_do` is the way out."""

    def __init__(self, message: str, what_to_do: str) -> None:
        super().__init__(message)
        self.what_to_do = what_to_do


@dataclass
class EngineAddress:
    """`address` is what DESKYARD_ENGINE takes; `sentence` says what it is and what was passed over, and why."""

    address: str
    sentence: str
    passed_over: list[str] = field(default_factory=list)
    service: PodmanService | None = None

    def stop(self) -> None:
        """End what was started for it, and let go of its mounts."""
        if self.service is not None:
            self.service.stop()
            self.service = None


def ensure_engine(home: Path, progress: Progress) -> EngineAddress:
    """The first engine, in the order above, that really works. Raises ProvisionError when none does."""
    passed_over: list[str] = []
    for address in _known_addresses():
        progress(f"trying the container engine at {address}")
        try:
            name = check(address)
        except EngineError as error:
            passed_over.append(f"{address}: {error}")
        else:
            return _on_runc(EngineAddress(address, f"{name} at {address}", passed_over), home, progress)
    try:
        return _on_runc(_own_podman(home / "engine", progress, passed_over), home, progress)
    except EngineError as error:
        passed_over.append(f"Podman of our own: {error}")
    problem = why_not()
    if not problem:
        sentence = "no container can run here, so desktops are processes of this machine, one at a time"
        return EngineAddress("process", sentence, passed_over)
    passed_over.append(f"process engine: {problem}")
    raise ProvisionError(
        "nothing here can make desktops: " + "; ".join(passed_over),
        "Start Docker or Podman and set DOCKER_HOST to its socket, or run as root on Debian 12.",
    )


def client(address: str) -> docker.DockerClient | HostInstaller:
    """What desktops.images.build builds with: a client of that engine, or this machine itself."""
    if address == "process":
        return HostInstaller()
    try:
        return dial(socket_of(address), BUILD_SECONDS)
    except (DockerException, OSError) as error:
        raise EngineError(f"no container engine answers at {address}: {error}") from error


def check(address: str) -> str:
    """Start a container there as desktops are started, and look into it; gives the engine's name and version.

    An engine may answer and yet be of no use: on another machine, or unable to start anything.
    """
    engine = DockerEngine(address, owner=f"probe-{uuid.uuid4().hex}")
    try:
        image = _probe_image(engine)
        try:
            _probe_container(engine, image)
        finally:
            engine.sweep([])
            _forget(engine, image)
        facts = engine.probe()
        return f"{facts.name} {facts.version}"
    finally:
        engine.close()


def check_saving(address: str, folder: Path) -> None:
    """Start a small container at that runc address, save it, and start another from it. Raises EngineError."""
    engine = open_engine(address, folder)
    assert isinstance(engine, RuncEngine)
    try:
        problem = engine.cannot_save_because()
        engine.sweep([])
        if problem:
            raise EngineError(problem)
    finally:
        engine.close()
        shutil.rmtree(folder, ignore_errors=True)


def _on_runc(found: EngineAddress, home: Path, progress: Progress) -> EngineAddress:
    """The same with desktops on runc, where they can be saved; else as it is, and why."""
    try:
        if os.geteuid() != 0:
            raise EngineError("only root may do that")
        if not shutil.which("runc"):
            raise EngineError("runc is not installed")
        address = runc_address(found.address, ensure_criu(home / "criu", progress))
        check_saving(address, home / "probe")
    except EngineError as error:
        found.passed_over.append(f"desktops that can be saved: {error}")
        found.address = containers_address(
            found.address, f"Live desktops cannot be saved here: {error}"[:LONGEST]
        )
        return found
    found.address = address
    found.sentence += ", desktops on runc, started from a saved one"
    return found


def _known_addresses() -> list[str]:
    given = os.environ.get("DOCKER_HOST", "")
    return [given] if given else [f"unix://{path}" for path in SOCKETS if Path(path).is_socket()]


def _own_podman(home: Path, progress: Progress, passed_over: list[str]) -> EngineAddress:
    if os.geteuid() != 0:
        raise EngineError("only root may run it")
    problem = _cannot_contain()
    if problem:
        raise EngineError(problem)
    missing = [program for program in ("podman", "runc", "ip") if not shutil.which(program)]
    if missing:
        _install(PODMAN_PACKAGES, progress)
    service = PodmanService(home)
    progress("starting Podman")
    service.start()
    try:
        name = check(service.url)
    except BaseException:
        service.stop()
        raise
    return EngineAddress(service.url, f"{name}, started for this data folder", passed_over, service)


def _cannot_contain() -> str:
    """Why no container can run on this machine at all; empty when nothing speaks against it."""
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    if found and not int(found[1], 16) >> CAP_SYS_ADMIN & 1:
        return "this is itself a container without the right to make others (no CAP_SYS_ADMIN)"
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return f"this machine lets nobody make namespaces: {tried.stderr.strip()}" if tried.returncode else ""


def _install(packages: tuple[str, ...], progress: Progress) -> None:
    """From apt, with a line of progress now and then. Raises EngineError."""
    if not shutil.which("apt-get"):
        raise EngineError(f"{packages[0]} is not installed, and there is no apt-get to install it with")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "-q", "-y", "-o", "APT::Install-Recommends=false", "install", *packages]
    for command in (["apt-get", "-q", "update"], install):
        progress(f"installing {packages[0]}: {' '.join(command[:4])}")
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise EngineError(f"apt-get could not install {packages[0]}: {done.stderr.strip()[-400:]}")


def _probe_image(engine: DockerEngine) -> str:
    """An image with one program of this machine and the libraries it needs: nothing has to be fetched. No other console
    that probes the same engine at the same time has the same."""
    program = shutil.which("sleep")
    if program is None:
        raise EngineError("this machine has no sleep")
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", dereference=True) as tar:
        tar.add(program, "/".join(PROBE_PROGRAM))
        for library in re.findall(r"(/\S+) \(", linked):
            tar.add(library, library.lstrip("/"))
        tar.addfile(tarfile.TarInfo(tag := f"probe-{uuid.uuid4().hex[:12]}"))
    try:
        told = engine.client.api.import_image_from_data(
            buffer.getvalue(), repository="localhost/deskyard/probe", tag=tag
        )
    except (DockerException, OSError) as error:
        raise EngineError(f"it takes no image: {error}") from error
    made = re.findall(r"\bsha256:[0-9a-f]{64}\b", str(told))
    if not made:
        raise EngineError(f"it does not say which image it made: {str(told)[:200]}")
    return str(made[-1])


def _probe_container(engine: DockerEngine, image: str) -> ContainerDesk:
    spec = DeskSpec(computer=str(uuid.uuid4()), image=image, memory_mb=64, cpus=0.5)
    desk = engine.create(spec, command=["/" + "/".join(PROBE_PROGRAM), "60"])
    if desk.state() != "running":
        raise EngineError("a container started and ended at once")
    try:
        with open_in(desk.pid(), PROBE_PROGRAM, os.O_PATH):
            return desk
    except OSError as error:
        raise EngineError(
            f"its containers start, but cannot be looked into from here ({error}): it runs on another machine "
            "or in another container, or this is not root"
        ) from error


def _forget(engine: DockerEngine, image: str) -> None:
    try:
        engine.client.images.remove(image, force=True)
    except ImageNotFound:
        return  # somebody tidied up
    except (DockerException, OSError) as error:
        raise EngineError(f"it keeps an image that was to go: {error}") from error
