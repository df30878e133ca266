"""Frames of the worker's websocket: JSON text, one message a frame, `type` first.

The worker dials. It says `hello`, is told `welcome`, and from then on both sides may speak at any time. Records ride
in `report` frames from a spool on the worker's disk and are sent again until their spool number is acknowledged, so
the console must apply each at most once: it keeps the last spool number it has applied per worker instance.
Blobs go by HTTP: PUT /v1/worker/blobs/{sha256} with the same token.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from .moments import Moment

PROTOCOL = 1
MAX_INTEGER = 2**31 - 1  # what the console's columns hold
MAX_FRAME = 1 << 20  # bytes; a larger frame is refused, and the sender told so
MAX_ITEMS = 1000  # of a report
HEARTBEAT_SECONDS = 2
LEASE_SECONDS = 15


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore")


# What cannot be stored is refused with the frame. No database keeps a NUL in a text, and a time before year 1 in
# somebody's zone can be written but never read again.
Text = Annotated[str, Field(pattern=r"^[^\x00]*\z")]
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
UuidText = Annotated[str, Field(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\z")]


class Held(_Message):
    """An assignment that the worker holds, by lease epoch, and until when it knows its desktop to be paid for."""

    assignment: str
    epoch: int
    paid_until: Moment | None = None


class WorkerImage(_Message):
    """A template image present on this host."""

    name: Text
    version: int
    digest: Text


class HeldState(_Message):
    """A saved desktop on this host. `name` says what it is: warm-…, setup-…, prefix-… or saved-…."""

    name: Text = Field(max_length=120)
    digest: Text = Field(max_length=71)
    size_bytes: int = Field(ge=0, le=2**63 - 1)
    image: Text = Field(default="", max_length=71, description="Digest of the recipe of its image.")
    made_at: Moment | None = None
    used_at: Moment | None = None


# ── worker → console ──────────────────────────────────────────────────────────────────────────────────────────────


class Hello(_Message):
    type: Literal["hello"] = "hello"
    protocol: int = PROTOCOL
    version: Text = Field(max_length=50)
    instance: UuidText = Field(description="UUID of the worker's spool: a new spool is a new instance.")
    name: str = Field(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f\x85\u2028\u2029]*\z")
    engine: Literal["docker", "podman", "runc", "process", "fake"]
    engine_version: Text = Field(default="", max_length=50)
    isolation: Text = Field(default="", max_length=500, description="One sentence for the Workers page.")
    can_fork: bool = False
    cannot_fork_because: Text = Field(default="", max_length=500)
    slots: int = Field(ge=1, le=256)
    cpus: int = Field(default=0, ge=0, le=32767)
    memory_mb: Count = 0
    images: list[WorkerImage] = []
    held: list[Held] = []


class Heartbeat(_Message):
    """Each 2 s. Extends the leases named; whatever the console thinks this worker holds and is not named is lost."""

    type: Literal["heartbeat"] = "heartbeat"
    held: list[Held] = []
    images: list[WorkerImage] = []
    swept_at: Moment | None = None  # last look of the reaper for desktops that nobody owns
    swept_left: int = Field(default=0, ge=0, le=32767)
    disk_free_mb: Count = 0
    states: list[HeldState] | None = Field(default=None, description="All of them; None: as said before.")
    states_limit_mb: Count = 0  # of disk, for all states together
    ready: int = Field(default=0, ge=0, le=256, description="Desktops that stand ready and are nobody's yet.")
    leaving: bool = Field(default=False, description="It is being shut down and takes no work any longer.")


class SpoolItem(_Message):
    """`record` is one of the assignment kind's records (for `attempt`: desktops.protocol.attempt.AttemptRecord)."""

    number: int = Field(ge=1)
    assignment: str
    epoch: int
    record: dict[str, Any]


class Report(_Message):
    """Items in spool order, numbers ascending without a gap."""

    type: Literal["report"] = "report"
    items: list[SpoolItem] = Field(min_length=1, max_length=MAX_ITEMS)


# ── console → worker ──────────────────────────────────────────────────────────────────────────────────────────────


class Welcome(_Message):
    type: Literal["welcome"] = "welcome"
    worker: str
    applied: int = Field(description="Highest spool number of this instance that is stored.")


class Offer(_Message):
    """Take this assignment. Offered until a heartbeat names it, so taking it twice must be harmless."""

    type: Literal["offer"] = "offer"
    assignment: str
    epoch: int
    kind: str
    payload: dict[str, Any]
    paid_until: datetime


class Extend(_Message):
    """Budget was reserved ahead: the assignment's desktop may exist until then."""

    type: Literal["extend"] = "extend"
    assignment: str
    epoch: int
    paid_until: datetime


class Stop(_Message):
    """End this assignment now: remove its desktop, report what there is, then its kind's last record."""

    type: Literal["stop"] = "stop"
    assignment: str
    epoch: int
    kind: str = "attempt"
    reason: str


class Forget(_Message):
    """Remove this saved desktop; forgetting what is not there is no error. Seen in the next heartbeat's states."""

    type: Literal["forget"] = "forget"
    state: str


class ForgetImage(_Message):
    """Remove every image of this digest; removing what is not there is no error. Seen in a heartbeat's images."""

    type: Literal["forget_image"] = "forget_image"
    digest: str


class Save(_Message):
    """Keep the desktop as it is now, under that name; it goes on."""

    what: Literal["save"] = "save"
    name: str


class MakeImage(_Message):
    """Make an image of the files it has now, which is that version of that template; it goes on."""

    what: Literal["make_image"] = "make_image"
    template: str
    version: int


class Ask(_Message):
    """Do this with the desktop of an assignment of kind `computer`. Asked again until it is answered, done once."""

    type: Literal["ask"] = "ask"
    ask: str
    assignment: str
    epoch: int
    do: Annotated[Save | MakeImage, Field(discriminator="what")]


class OpenView(_Message):
    """Somebody wants to see a desktop: dial `/ws/worker/tunnel/VIEW`, and through it pass on what its screen says.

    With `drives` they act on it themselves: what plays on it stops first, for good.
    """

    type: Literal["open_view"] = "open_view"
    view: str
    assignment: str
    epoch: int
    computer: str
    drives: bool = False
    by: str = Field(default="", description="Who drives, for the log.")


class Acknowledge(_Message):
    """Everything up to `applied` is stored; the spool may forget it."""

    type: Literal["acknowledge"] = "acknowledge"
    applied: int


class Refused(_Message):
    """Something the worker sent cannot be used; it is dropped and the connection goes on.

    code: unknown_message, bad_message, too_large, stale_epoch, unknown_assignment, bad_record, gap; after a hello
    name_taken, and then the connection does not go on
    """

    type: Literal["refused"] = "refused"
    code: str
    detail: str
    number: int | None = Field(
        default=None, description="The spool item meant, if one is: it counts as applied."
    )
    assignment: str | None = None
    epoch: int | None = Field(default=None, description="The lease meant; a newer one of it is not touched.")


FromWorker = Annotated[Hello | Heartbeat | Report, Field(discriminator="type")]
FromConsole = Annotated[
    Welcome | Offer | Extend | Stop | Forget | ForgetImage | Ask | OpenView | Acknowledge | Refused,
    Field(discriminator="type"),
]
from_worker: TypeAdapter[FromWorker] = TypeAdapter(FromWorker)
from_console: TypeAdapter[FromConsole] = TypeAdapter(FromConsole)


# ── a view's tunnel ───────────────────────────────────────────────────────────────────────────────────────────────
# Binary frames are RFB between browser and screen. Text frames are one of these. Either side counts what it has got,
# and the other keeps at most a window's bytes on the way, so that nobody's memory fills for somebody slow.

ELSEWHERE = 4421  # the console's code to the worker: another of its processes holds the browser
VIEW_FRAME = 64 << 10  # bytes of pixels in one frame
VIEW_WINDOW = 1 << 20  # bytes of pixels on the way to a browser
INPUT_FRAME = 128 << 10  # bytes of a browser's frame
INPUT_WINDOW = 256 << 10  # bytes on the way to a screen; whoever sends more is no person


class Seen(_Message):
    type: Literal["seen"] = "seen"
    bytes: int = Field(ge=0, description="Taken in so far, of all binary frames.")


class ViewNews(_Message):
    """How a view stands, for the person. `again`: it broke off, and may be asked for anew."""

    type: Literal["view"] = "view"
    state: Literal["waiting", "live", "ended", "again"]
    detail: Text = Field(default="", max_length=500)


TunnelText = Annotated[Seen | ViewNews, Field(discriminator="type")]
tunnel_text: TypeAdapter[TunnelText] = TypeAdapter(TunnelText)
