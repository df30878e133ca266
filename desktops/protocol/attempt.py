"""One attempt as the worker is asked to play it, and what it reports back, record by record."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from .actions import Action
from .moments import Moment

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

# Why an attempt has no verdict. A closed vocabulary: pages, API and reports name these and no others.
InvalidReason = Literal[
    "desktop_start_failed",  # no desktop could be started
    "desktop_lost",  # the desktop went away while the attempt was playing
    "guest_unreachable",  # the desktop runs, its guest agent does not answer
    "setup_failed",  # a step of the task's setup failed
    "not_ready",  # the gates after setup did not pass
    "checker_error",  # the checker could not read the desktop, or broke
    "fork_mismatch",  # a fork did not look like its parent
    "worker_lost",  # the lease ended without a word
    "paid_until_reached",  # the desktop was stopped because nothing paid for it any longer
    "human_intervened",  # somebody took the desktop over
    "upload_failed",  # a screenshot or evidence file could not be stored
    "worker_stopped",  # the worker was shut down, or started again, while the attempt was playing
    "worker_fault",  # the worker itself broke; the detail says where
]


class TemplatePin(BaseModel):
    """The image an attempt must run on. `digest` is the published one: of everything the image is made from."""

    model_config = ConfigDict(frozen=True)
    name: str
    version: int
    digest: str
    egress: Literal["none", "open"] = "none"
    memory_mb: int = 2048
    cpus: float = 1.5


class AttemptOrder(BaseModel):
    """Payload of an assignment of kind `attempt`."""

    model_config = ConfigDict(extra="ignore")
    attempt_id: str
    run_id: str
    try_number: int
    template: TemplatePin
    task: dict[str, Any] = Field(description="The task in OSWorld's JSON format, as imported and cleaned.")
    policy: Literal["recipe"] = "recipe"
    recipe: list[Action]
    prefix_steps: int = 0
    max_steps: int


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore")
    at: Moment


class ComputerStarted(_Record):
    """A desktop exists from `at` on: money runs from here. `computer` is a UUID the worker made."""

    kind: Literal["computer_started"] = "computer_started"
    computer: str
    engine: str
    engine_ref: str = ""
    image_id: str = Field(
        default="", pattern=r"^(sha256:[0-9a-f]{64})?\z", description="Of the very image it was made of."
    )


class ComputerReady(_Record):
    kind: Literal["computer_ready"] = "computer_ready"
    computer: str
    seconds: float = Field(description="From the start call until the first good screenshot.")


class ComputerStopped(_Record):
    """The desktop was observed to be gone at `at`: money ends here."""

    kind: Literal["computer_stopped"] = "computer_stopped"
    computer: str
    reason: str


class SetupDone(_Record):
    kind: Literal["setup_done"] = "setup_done"
    seconds: float
    steps: int
    screenshot: Sha256


class StepTaken(_Record):
    """One action and what the screen showed after it. Times in milliseconds."""

    kind: Literal["step"] = "step"
    number: int = Field(ge=1)
    action: Action
    prefix: bool = False
    policy_ms: float = 0
    act_ms: float
    settle_ms: float
    grab_ms: float
    settled: bool
    screenshot: Sha256
    active_window: str = ""
    error: str = ""


class Verifying(_Record):
    kind: Literal["verifying"] = "verifying"


class Evidence(BaseModel):
    """One getter's and metric's part of a verdict: what was read, what was expected, whether it matched."""

    label: str
    metric: str
    getter: str = ""
    found: Any = None
    expected: Any = None
    reward: float
    artefacts: dict[str, Sha256] = {}  # file name -> blob, the raw files that were read
    note: str = ""


class Verdict(_Record):
    """The checker's word. A missing artefact is an honest reward 0; a desktop it could not read is no verdict."""

    kind: Literal["verdict"] = "verdict"
    reward: float
    evidence: list[Evidence]
    checker: str
    checker_digest: str
    seconds: float
    screenshot: Sha256


class AttemptEnded(_Record):
    """The last record of a try. `verdict` may have come before: then the try stays valid whatever broke after."""

    kind: Literal["attempt_ended"] = "attempt_ended"
    ok: bool
    invalid_reasons: list[InvalidReason] = []
    checker_error: str = Field(default="", max_length=4000)
    detail: str = Field(default="", max_length=4000)
    steps: int = 0
    stopped: bool = Field(default=False, description="Ended because the console asked it to stop.")


AttemptRecord = Annotated[
    ComputerStarted
    | ComputerReady
    | ComputerStopped
    | SetupDone
    | StepTaken
    | Verifying
    | Verdict
    | AttemptEnded,
    Field(discriminator="kind"),
]
record_adapter: TypeAdapter[AttemptRecord] = TypeAdapter(AttemptRecord)
