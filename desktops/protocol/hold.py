"""A computer that somebody has opened, and what its worker reports of it until it is closed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from .attempt import ComputerReady, ComputerStarted, ComputerStopped, InvalidReason, StateSaved, TemplatePin
from .messages import WorkerImage
from .moments import Moment


class HoldOrder(BaseModel):
    """Payload of an assignment of kind `computer`: start it, answer what is asked, end when told to."""

    model_config = ConfigDict(extra="ignore")
    hold_id: str
    template: TemplatePin
    state: str = Field(
        default="", description="Name of the saved desktop to start from; empty: the template."
    )


class Answered(BaseModel):
    """The answer to an `ask`, once. What was saved was told of before, by `state_saved`."""

    model_config = ConfigDict(extra="ignore")
    kind: Literal["answered"] = "answered"
    at: Moment
    ask: str
    error: str = Field(default="", max_length=4000, description="Why it could not be done; empty: it was.")
    image: WorkerImage | None = Field(default=None, description="The image that was made.")


class HoldEnded(BaseModel):
    """The last record: it was ended as asked, where `ok`; else the reasons say what ended its desktop."""

    model_config = ConfigDict(extra="ignore")
    kind: Literal["hold_ended"] = "hold_ended"
    at: Moment
    ok: bool
    invalid_reasons: list[InvalidReason] = []
    detail: str = Field(default="", max_length=4000)
    stopped: bool = Field(default=False, description="Ended because the console asked it to stop.")


HoldRecord = Annotated[
    ComputerStarted | ComputerReady | ComputerStopped | StateSaved | Answered | HoldEnded,
    Field(discriminator="kind"),
]
hold_adapter: TypeAdapter[HoldRecord] = TypeAdapter(HoldRecord)
