"""Desktops on runc and overlay mounts, under one folder of the worker's home.

    layers/IMAGE/N      links to the image's layers, as the container engine keeps them
    boxes/COMPUTER/     one desktop: config.json, disk (mounted from disk.img: what it wrote), root (mounted), image and
                        recipe (what it was made of), started, paid_until (its time is what it says)
    states/IMAGE/       a live desktop of that image, saved: its processes, what it wrote
    runc/               runc's own notes
    blank.img           the empty disk that theirs are copies of
    going/              what is being deleted

What a box holds is made before the desktop starts and removed after it ended, so whoever finds this folder can clear
it. A desktop whose template opens the network is a container of the engine that has the images.
"""

from __future__ import annotations

import json
import logging
import os
import socket
from collections.abc import Container
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path

from desktops.worker.engine import images
from desktops.worker.engine.base import (
    COMPUTER_LABEL,
    DISK_MB,
    OWNER_LABEL,
    Desk,
    DeskSpec,
    DeskState,
    Door,
    EngineError,
    EngineFacts,
    Image,
    ImageMissing,
    OwnedDesk,
    SavedState,
    StateMissing,
    SweepReport,
    warm_state,
)
from desktops.worker.engine.docker import SESSION_LOG, ContainerDesk, DockerEngine, connect_in, open_in
from desktops.worker.engine.podman import CRIU_SETTINGS, LOOPBACK

from . import guardian, leftovers, oci, overlay, rehearsal, seccomp
from .criu import is_missing, names_given
from .disks import Disks
from .going import Going
from .guardian import Guardian
from .layers import Layers
from .runtime import Runc
from .states import States, copy

log = logging.getLogger(__name__)

LOG_BYTES = 4000


class RuncDesk:
    """One desktop, known by its folder. `restored` is whether it came from a saved one."""

    def __init__(self, runc: Runc, folder: Path, restored: bool = False) -> None:
        self._runc = runc
        self.folder = folder
        self.restored = restored
        self._started_at = _started(folder)
        self._image_id = _read(folder / "image")
        self.image = _read(folder / "recipe")

    @property
    def ref(self) -> str:
        return self.folder.name

    @property
    def computer(self) -> str:
        return self.folder.name

    @property
    def started_at(self) -> datetime:
        return self._started_at

    @property
    def image_id(self) -> str:
        return self._image_id

    def set_paid_until(self, at: datetime) -> None:
        guardian.set_paid_until(self.folder, at)

    def state(self) -> DeskState:
        if self._runc.pid(self.ref):
            return "running"
        if not self.folder.exists():
            return "gone"
        return "exited" if (self.folder / "started").exists() else "created"

    def connect(self, timeout: float, door: Door = "agent") -> socket.socket:
        return connect_in(self.pid(), timeout, door)

    def logs(self) -> str:
        try:
            with open_in(self.pid(), SESSION_LOG, os.O_RDONLY) as descriptor:
                size = os.fstat(descriptor).st_size
                return os.pread(descriptor, LOG_BYTES, max(0, size - LOG_BYTES)).decode(errors="replace")
        except OSError:
            return ""

    def pid(self) -> int:
        """Process id, on this host, of the desktop's first process. Raises ConnectionError when there is none."""
        pid = self._runc.pid(self.ref)
        if not pid:
            raise ConnectionRefusedError("the desktop does not run")
        return pid


class RuncEngine:
    """`containers` has the images, and makes what needs a network; `criu` is the program that saves and restores;
    `disk_mb` is how much a desktop may write, 0 for any."""

    def __init__(self, containers: DockerEngine, folder: Path, criu: Path, *, disk_mb: int = DISK_MB) -> None:
        self.containers = containers
        self._folder = folder.absolute()
        self._criu = criu
        self._runc = Runc(self._folder / "runc", criu)
        self._seccomp = seccomp.profile()
        (self._folder / "boxes").mkdir(parents=True, exist_ok=True)
        self._guardian = Guardian(self._folder / "boxes", self._runc.root)
        self._disks = Disks(self._folder, disk_mb, containers.probe().slots)
        self._going = Going(self._folder / "going")
        self._layers = Layers(self._folder / "layers", containers, self._going)
        self._states = States(self._folder / "states", self._going)
        self._hook, self._criu_settings = self._folder / "loopback.sh", self._folder / "criu.conf"
        for path, text in ((self._hook, LOOPBACK), (self._criu_settings, CRIU_SETTINGS)):
            if _read(path) != text:
                path.write_text(text)
        self._hook.chmod(0o755)

    @property
    def owner(self) -> str:
        return self.containers.owner

    def probe(self) -> EngineFacts:
        facts, cannot_fork = self.containers.probe(), self.cannot_save_because()
        return EngineFacts(
            name="runc",
            version=f"{self._runc.version()}, images by {facts.name.capitalize()} {facts.version}",
            isolation=f"{facts.isolation} {self._disks.told}",
            can_fork=not cannot_fork,
            cannot_fork_because=cannot_fork,
            slots=facts.slots,
            cpus=facts.cpus,
            memory_mb=facts.memory_mb,
        )

    def images(self) -> list[Image]:
        return self.containers.images()

    def create(self, spec: DeskSpec, command: list[str] | None = None) -> RuncDesk | ContainerDesk:
        """From a saved desktop, if one is named or the image has one; else from its beginning. `command` is for a
        probe, in place of the session. Raises StateMissing too."""
        if spec.egress != "none":
            return self.containers.create(spec, command)
        image = self._layers.of(spec.image)
        if command is None:
            try:
                return self._restore(spec, image)
            except EngineError as error:
                if spec.state:
                    raise
                if not isinstance(error, StateMissing):
                    name = warm_state(spec.image)
                    log.warning("the saved desktop %s is of no use and goes: %s", name[:20], error)
                    self.forget(name)
        return self._begin(spec, image, None, command)

    def find(self, computer: str) -> Desk | None:
        folder = self._folder / "boxes" / computer
        if folder.is_dir():
            return RuncDesk(self._runc, folder)
        return self.containers.find(computer)

    def remove(self, desk: Desk) -> datetime:
        if not isinstance(desk, RuncDesk):
            return self.containers.remove(desk)
        self._clear(desk.folder)
        return datetime.now(UTC)

    def list_owned(self) -> list[OwnedDesk]:
        folders = sorted((self._folder / "boxes").iterdir())
        desks = [RuncDesk(self._runc, folder) for folder in folders]
        # A box that went meanwhile is none any longer.
        own = [
            OwnedDesk(desk.ref, desk.computer, state) for desk in desks if (state := desk.state()) != "gone"
        ]
        return [*own, *self.containers.list_owned()]

    def sweep(self, keep: Container[str]) -> SweepReport:
        removed, left, problems = [], [], []
        ended: dict[str, datetime] = {}
        boxes, known = {path.name for path in (self._folder / "boxes").iterdir()}, set(self._runc.names())
        for name in sorted(boxes | known):
            if name in keep:
                continue
            at = guardian.ended_at(self._folder / "boxes" / name)
            try:
                self._clear(self._folder / "boxes" / name)
            except EngineError as error:
                left.append(name)
                problems.append(str(error))
            else:
                removed.append(name)
                if at is not None:
                    ended[name] = at
        self._clear_unfinished()
        self._guardian.wake()  # should it have been killed
        others = self.containers.sweep(keep)
        return SweepReport(
            at=others.at,
            removed=removed + others.removed,
            left=left + others.left,
            problems=problems + others.problems,
            unstarted=[name for name in removed if name not in known],
            ended=ended,
        )

    def close(self) -> None:
        self._guardian.close()
        self._going.close()
        self.containers.close()

    # ── saved desktops ────────────────────────────────────────────────────────────────────────────────────

    def save(self, desk: Desk, name: str, *, resume: bool) -> SavedState:
        if not isinstance(desk, RuncDesk):
            raise EngineError("a desktop with a network cannot be saved")

        def write(folder: Path) -> None:
            with self._runc.paused(desk.ref):
                self._runc.save(desk.ref, folder / "images")
                if names_given(folder / "images"):
                    raise EngineError(
                        "a program keeps a file open of which it has deleted one name of several"
                    )
                copy(desk.folder / "disk" / "upper", folder / "upper")

        state = self._states.store(name, image_id=desk.image_id, image=desk.image, write=write)
        if not resume:
            self._runc.end(desk.ref)
        return state

    def states(self) -> list[SavedState]:
        return self._states.all()

    def forget(self, name: str) -> None:
        self._states.forget(name)

    def make_image(self, desk: Desk, name: str, version: int) -> Image:
        """It stands still while what it wrote is copied into a container that is made for that and never starts."""
        if not isinstance(desk, RuncDesk):
            return self.containers.make_image(desk, name, version)
        labels = {OWNER_LABEL: self.owner, COMPUTER_LABEL: desk.computer}
        with images.unstarted(self.containers.client, desk.image_id, labels) as (container, upper):
            with self._runc.paused(desk.ref):
                images.lay_over(desk.folder / "disk" / "upper", upper)
            digest = images.digest_of(desk.image, upper)
            return images.commit(self.containers.url, container, name=name, version=version, digest=digest)

    def forget_image(self, digest: str) -> None:
        with suppress(ImageMissing):
            image = self._layers.of(digest)
            self.containers.forget_image(digest)
            self._layers.drop(image)

    def cannot_save_because(self) -> str:
        """Why live desktops cannot be saved and restored here; empty when that goes right, which is seen by doing it,
        once for each start of the machine."""
        done = self._folder / "rehearsed"
        try:
            occasion = rehearsal.occasion(self._criu)
            if _read(done) == occasion:
                return ""
            self._rehearse()
            done.write_text(occasion)
        except (EngineError, OSError) as error:
            why = is_missing(self._criu) or str(error)
            log.warning("live desktops cannot be saved and restored here: %s", why)
            return f"A live desktop cannot be saved here: {why}"
        return ""

    def _rehearse(self) -> None:
        """Save a small process as a desktop is saved, and start two others from it. Raises EngineError."""
        with ExitStack() as stack:
            image = rehearsal.image(stack.enter_context(self._layers.making()))
            self._layers.link(image)
            stack.callback(self._layers.drop, image)
            stack.callback(self.forget, rehearsal.NAME)
            desks = [self._begin(rehearsal.spec(), image, None, rehearsal.COMMAND)]
            stack.callback(self.remove, desks[0])
            self.save(desks[0], rehearsal.NAME, resume=True)
            for _ in range(2):
                desks.append(self._restore(rehearsal.spec(rehearsal.NAME), image))
                stack.callback(self.remove, desks[-1])
            if any(desk.state() != "running" for desk in desks):
                raise EngineError("what was saved, or started from it, does not run")

    # ── one box ───────────────────────────────────────────────────────────────────────────────────────────

    def _restore(self, spec: DeskSpec, image: oci.RootImage) -> RuncDesk:
        """From the saved desktop that is named, or else the image's own. Raises StateMissing, EngineError."""
        with self._states.reading(spec.state or warm_state(spec.image), image.id) as saved:
            return self._begin(spec, image, saved)

    def _begin(
        self, spec: DeskSpec, image: oci.RootImage, saved: Path | None, command: list[str] | None = None
    ) -> RuncDesk:
        folder = self._folder / "boxes" / spec.computer
        self._guardian.wake()
        try:
            self._lay_out(spec, image, folder, saved, command)
            (folder / "started").write_text(datetime.now(UTC).isoformat())
            if saved is not None:
                self._runc.restore(spec.computer, folder, saved / "images")
            else:
                self._runc.run(spec.computer, folder)
        except BaseException:
            self._clear(folder)
            raise
        return RuncDesk(self._runc, folder, restored=saved is not None)

    def _lay_out(
        self,
        spec: DeskSpec,
        image: oci.RootImage,
        folder: Path,
        saved: Path | None,
        command: list[str] | None,
    ) -> None:
        root = folder / "root"
        folder.mkdir(mode=0o700)
        root.mkdir()
        disk = self._disks.attach(folder)
        upper = disk / "upper"
        (disk / "work").mkdir()
        if saved is not None:
            copy(saved / "upper", upper)
        else:
            for name, text in oci.FILES.items():
                path = upper / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        environment = [f"DESKYARD_SILENCE_SECONDS={spec.silence_seconds:g}"]
        if spec.paid_until is not None:
            environment.append(f"DESKYARD_PAID_UNTIL={spec.paid_until.timestamp():.3f}")
        made = oci.configuration(
            spec,
            image,
            owner=self.owner,
            root=root,
            cgroup=f"/deskyard/{spec.computer}",
            hook=self._hook,
            criu_settings=self._criu_settings,
            seccomp=self._seccomp,
            environment=environment,
            command=command,
        )
        if spec.paid_until is not None:
            guardian.set_paid_until(folder, spec.paid_until)
        (folder / "image").write_text(image.id)
        (folder / "recipe").write_text(spec.image)
        (folder / "config.json").write_text(json.dumps(made))
        overlay.mount(self._layers.place(image), upper, disk / "work", root)

    def _clear(self, folder: Path) -> None:
        """End what runs in it, and remove it. Nothing there is no error. Raises EngineError when something stays."""
        self._runc.end(folder.name)
        leftovers.unmount_below(folder)
        self._going.take(folder)

    def _clear_unfinished(self) -> None:
        """What an earlier worker was making, or deleting, when it was killed."""
        self._states.clear()
        self._disks.clear()
        self._layers.clear()
        self._going.clear()


def _read(path: Path) -> str:
    """Its text; empty when it is not there (yet, or any longer)."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def _started(folder: Path) -> datetime:
    """When it was started; now, if it never was: nothing is counted from there."""
    text = _read(folder / "started")
    return datetime.fromisoformat(text) if text else datetime.now(UTC)
