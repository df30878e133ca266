"""What an engine is: it makes desktops, names those it owns, and removes them. It says nothing to a
desktop.
"""

from __future__ import annotations

import socket
from collections.abc import Container
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

OWNER_LABEL = "deskyard.owner"
COMPUTER_LABEL = "deskyard.computer"
RECIPE_LABEL = "deskyard.recipe"  # on an image: SHA-256 of everything it is made from
TEMPLATE_LABEL = "deskyard.template"  # on a template's image: its name and version
DISK_MB = 10 << 10  # what a desktop may write to its disk, where nothing else is said
IMAGE_REPOSITORY = "localhost/deskyard"

EngineName = Literal["docker", "podman", "runc", "process", "fake"]
# What the engine says of a desktop. "created" exists but has not been started; "gone" does not exist.
DeskState = Literal["created", "running", "exited", "gone"]
# Who listens in a desktop: its guest agent, and its screen, which speaks RFB. The socket is DOOR.sock.
Door = Literal["agent", "rfb"]


class EngineError(Exception):
    """The engine could not do what was asked: the message says what, why and what to do."""


class ImageMissing(EngineError):
    """The image a desktop should be made of is not on this machine."""


class NoFreeSlot(EngineError):
    """This engine holds as many desktops as it can."""


@dataclass(frozen=True)
class DeskSpec:
    """What to make. `image` is the digest of an image's recipe, or an image id of this engine (sha256:…)."""

    computer: str  # uuid
    image: str
    egress: Literal["none", "open"] = "none"
    memory_mb: int = 2048
    cpus: float = 1.5
    silence_seconds: float = 60.0  # the desktop ends itself when its agent hears nothing for that long
    paid_until: datetime | None = None
    labels: dict[str, str] = field(default_factory=dict)
    state: str = ""  # name of the saved desktop to start from; else the image's own, if one was saved


@dataclass(frozen=True)
class SavedState:
    """A live desktop that was saved. `digest` covers its processes and what it had written."""

    name: str
    digest: str
    size_bytes: int
    image_id: str
    image: str  # as in the DeskSpec it was made by
    made_at: datetime
    used_at: datetime | None = None  # when one was last started from it


@dataclass(frozen=True)
class Image:
    """A template image on this machine. `digest` is that of its recipe: the same on each host that built it."""

    name: str
    version: int
    digest: str


@dataclass(frozen=True)
class OwnedDesk:
    """A desktop with our label, started or not."""

    ref: str
    computer: str
    state: DeskState


@dataclass(frozen=True)
class SweepReport:
    """What a sweep found: `removed` desktops are gone, `left` could not be removed, `problems` says why.

    `unstarted` are those of them in which nothing has run yet; `ended` is when those did that had been ended before by
    somebody who noted it."""

    at: datetime
    removed: list[str]
    left: list[str]
    problems: list[str]
    unstarted: list[str] = field(default_factory=list)
    ended: dict[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True)
class EngineFacts:
    """What this engine is. `isolation` is one sentence for the Workers page."""

    name: EngineName
    version: str
    isolation: str
    can_fork: bool
    cannot_fork_because: str
    slots: int
    cpus: int
    memory_mb: int


class Desk(Protocol):
    """One desktop an engine made. `ref` is the engine's own name for it."""

    @property
    def ref(self) -> str: ...

    @property
    def computer(self) -> str: ...

    @property
    def started_at(self) -> datetime: ...

    @property
    def image_id(self) -> str:
        """The engine's id of the very image it was made of (sha256:…); empty where there is no image."""
        ...

    @property
    def restored(self) -> bool:
        """Whether it came from a saved desktop: its session runs already, and knows nothing of this DeskSpec."""
        ...

    def set_paid_until(self, at: datetime) -> None:
        """Have it ended then from outside, whatever has become of the watchdog in it, where the engine can do that."""
        ...

    def state(self) -> DeskState:
        """Ask the engine. Raises EngineError when it does not answer."""
        ...

    def connect(self, timeout: float, door: Door = "agent") -> socket.socket:
        """A connected socket to the guest agent, or to the screen. Raises OSError (also TimeoutError) when there is
        none."""
        ...

    def logs(self) -> str:
        """What the session printed, the end of it, for people who ask why it broke. May be empty."""
        ...


class Engine(Protocol):
    """Makes and removes desktops. Safe to share between threads."""

    @property
    def owner(self) -> str: ...

    def probe(self) -> EngineFacts: ...

    def images(self) -> list[Image]:
        """Template images present, newest version of each name last."""
        ...

    def create(self, spec: DeskSpec) -> Desk:
        """Make and start a desktop; it exists (and costs) from then on, ready or not.

        Raises ImageMissing, NoFreeSlot or EngineError, having left nothing behind.
        """
        ...

    def find(self, computer: str) -> Desk | None:
        """The desktop of that computer uuid, if this engine still has it."""
        ...

    def remove(self, desk: Desk) -> datetime:
        """End and remove it; the instant at which it was seen gone. Removing what is gone is no error."""
        ...

    def list_owned(self) -> list[OwnedDesk]:
        """Every desktop with our owner label, those created and never started too."""
        ...

    def sweep(self, keep: Container[str]) -> SweepReport:
        """Remove every owned desktop whose computer uuid is not in `keep`, and what broken ones left.

        `keep` is asked after the desktops were listed: one that begins meanwhile is in it or in no list.
        """
        ...

    def close(self) -> None:
        """Let go of connections; desktops stay."""
        ...


@runtime_checkable
class SavingEngine(Engine, Protocol):
    """An engine that can save a live desktop, processes and unsaved work included, and start others from it."""

    def save(self, desk: Desk, name: str, *, resume: bool) -> SavedState:
        """Keep the desktop under that name; then it goes on, or has ended. Nobody may be connected to it.

        Raises EngineError: then nothing is kept, and the desktop runs on unless saving it went right and resuming it
        did not.
        """
        ...

    def states(self) -> list[SavedState]: ...

    def forget(self, name: str) -> None:
        """No error when it is not there. Desktops that were started from it stay."""
        ...


@runtime_checkable
class ImagingEngine(Engine, Protocol):
    """An engine that can make an image of what a live desktop has written over its own."""

    def make_image(self, desk: Desk, name: str, version: int) -> Image:
        """Of its files as they are now; it goes on, and what its programs have not written yet is not in it.

        Raises EngineError, having left nothing behind.
        """
        ...

    def forget_image(self, digest: str) -> None:
        """Remove every image of that digest; no error when there is none. Raises EngineError while one is in use."""
        ...


def warm_state(image: str) -> str:
    """Name of the saved desktop that every new one of that image (digest of its recipe) starts from."""
    return f"warm-{image.removeprefix('sha256:')}"


class StateMissing(EngineError):
    """There is no saved desktop of that name here, or its image has changed."""
