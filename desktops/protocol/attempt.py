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


class Attestation(BaseModel):
    """What a saved desktop was like: each desktop started from it is compared, and else is no fork of it."""

    model_config = ConfigDict(frozen=True)
    screenshot: Sha256
    processes: list[str] = Field(description="Names of its processes, sorted, one entry a process.")
    files: Sha256 = Field(description="Of names and contents of the files under /home/user.")


class Fork(BaseModel):
    """The saved desktop an attempt starts from, which its worker has; setup and the prefix are played on it."""

    model_config = ConfigDict(frozen=True)
    state: str = Field(description="Its name on the worker.")
    parent: Attestation
    screenshot: Sha256 = Field(description="What the policy sees first: the parent's last screen.")


class _Order(BaseModel):
    """What an attempt and a prefix have in common."""

    model_config = ConfigDict(extra="ignore")
    run_id: str
    try_number: int
    template: TemplatePin
    task: dict[str, Any] = Field(description="The task in OSWorld's JSON format, as imported and cleaned.")
    recipe: list[Action]
    setup_state: str = Field(
        default="",
        description="Name of the state after this setup. Started from where the worker has it, saved where it has"
        " not. Empty: set up anew and save nothing.",
    )


class AttemptOrder(_Order):
    """Payload of an assignment of kind `attempt` or `rollout`."""

    attempt_id: str
    policy: Literal["recipe"] = "recipe"
    prefix_steps: int = 0
    max_steps: int
    fork: Fork | None = None


class PrefixOrder(_Order):
    """Payload of an assignment of kind `prefix`: set up, play the whole recipe, save the desktop as `state`."""

    prefix_id: str
    state: str


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
    from_state: str = Field(
        default="", max_length=120, description="Name of the saved desktop it came from; empty: a cold start."
    )


class ComputerReady(_Record):
    kind: Literal["computer_ready"] = "computer_ready"
    computer: str
    seconds: float = Field(description="From the start call until the first good screenshot.")


class TakenOver(_Record):
    """A person acts on the desktop from now on. Whatever comes, the attempt has no verdict: `human_intervened`."""

    kind: Literal["taken_over"] = "taken_over"
    by: str


class ComputerStopped(_Record):
    """The desktop was observed to be gone at `at`: money ends here."""

    kind: Literal["computer_stopped"] = "computer_stopped"
    computer: str
    reason: str


class SetupAwaited(_Record):
    """Another order on this worker is about to save the setup that this one needs: no desktop is started until then."""

    kind: Literal["setup_awaited"] = "setup_awaited"


class SetupDone(_Record):
    kind: Literal["setup_done"] = "setup_done"
    seconds: float
    steps: int
    screenshot: Sha256
    from_state: str = Field(default="", description="Name of the saved desktop that was set up already.")


class StateSaved(_Record):
    """The desktop was saved under `name`, and can be started from on this worker."""

    kind: Literal["state_saved"] = "state_saved"
    computer: str
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,99}\z")
    digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}\z")
    size_bytes: int = Field(ge=0)
    seconds: float
    parent: str = Field(default="", description="Name of the state its desktop was started from.")
    attestation: Attestation | None = None


class Forked(_Record):
    """The desktop was started from a saved one and compared with it. Differences are empty where it is a fork."""

    kind: Literal["forked"] = "forked"
    computer: str
    state: str
    differences: list[str] = Field(default=[], max_length=50)
    seconds: float = Field(description="What comparing took.")


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


class PrefixEnded(_Record):
    """The last record of a try of a prefix. `state_saved` came before where `ok`."""

    kind: Literal["prefix_ended"] = "prefix_ended"
    ok: bool
    invalid_reasons: list[InvalidReason] = []
    detail: str = Field(default="", max_length=4000)
    stopped: bool = Field(default=False, description="Ended because the console asked it to stop.")


PrefixRecord = Annotated[
    ComputerStarted
    | ComputerReady
    | ComputerStopped
    | SetupAwaited
    | SetupDone
    | StepTaken
    | StateSaved
    | PrefixEnded,
    Field(discriminator="kind"),
]
prefix_adapter: TypeAdapter[PrefixRecord] = TypeAdapter(PrefixRecord)

AttemptRecord = Annotated[
    ComputerStarted
    | ComputerReady
    | ComputerStopped
    | SetupAwaited
    | SetupDone
    | StateSaved
    | Forked
    | StepTaken
    | TakenOver
    | Verifying
    | Verdict
    | AttemptEnded,
    Field(discriminator="kind"),
]
record_adapter: TypeAdapter[AttemptRecord] = TypeAdapter(AttemptRecord)
