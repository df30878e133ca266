"""The one action vocabulary. Recipes, models and people act on a desktop with these and nothing else.

Coordinates are pixels of the 1920×1080 screen, origin top left.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

SCREEN_WIDTH, SCREEN_HEIGHT = 1920, 1080

X = Annotated[int, Field(ge=0, lt=SCREEN_WIDTH)]
Y = Annotated[int, Field(ge=0, lt=SCREEN_HEIGHT)]
Button = Literal["left", "middle", "right"]


class _Action(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)
    note: str = Field(default="", max_length=500, description="Why, in a few words; shown beside the step.")


class Click(_Action):
    action: Literal["click"] = "click"
    x: X
    y: Y
    button: Button = "left"
    keys: tuple[str, ...] = Field(  # not a list: the default of each click would be copied
        default=(), max_length=4, description="Modifiers held meanwhile, as X keysym names."
    )


class DoubleClick(_Action):
    action: Literal["double_click"] = "double_click"
    x: X
    y: Y
    button: Button = "left"


class Move(_Action):
    action: Literal["move"] = "move"
    x: X
    y: Y


class Drag(_Action):
    action: Literal["drag"] = "drag"
    x: X
    y: Y
    to_x: X
    to_y: Y
    button: Button = "left"


class Scroll(_Action):
    """Wheel notches at a point; positive dy scrolls down, positive dx right."""

    action: Literal["scroll"] = "scroll"
    x: X
    y: Y
    dx: int = Field(default=0, ge=-50, le=50)
    dy: int = Field(default=0, ge=-50, le=50)


class Type(_Action):
    """Any Unicode text; a newline presses Return, a tab presses Tab."""

    action: Literal["type"] = "type"
    text: str = Field(min_length=1, max_length=10_000)


class Key(_Action):
    """One chord: modifiers first, e.g. ["ctrl", "shift", "s"]; names as X keysyms, case-insensitive, with the
    usual short forms (ctrl, alt, shift, super, enter, esc, tab, space, up, down, pageup …)."""

    action: Literal["key"] = "key"
    keys: list[str] = Field(min_length=1, max_length=6)
    times: int = Field(default=1, ge=1, le=100)


class Wait(_Action):
    """Wait for the screen to settle, or, with `window`, until a window whose title contains that text is active.

    `seconds` is the longest wait, on a machine that is not overloaded. A window that does not come is an error of the
    step: what a recipe does next would meet something else, so the try is played again (`not_ready`) unless the wait
    is `optional`, as for a dialog that may or may not come.
    """

    action: Literal["wait"] = "wait"
    seconds: float = Field(default=10, gt=0, le=60)
    window: str = Field(default="", max_length=200)
    optional: bool = False


class Done(_Action):
    action: Literal["done"] = "done"


class Fail(_Action):
    """The policy says that the task cannot be done (the right answer to OSWorld's infeasible tasks)."""

    action: Literal["fail"] = "fail"


Action = Annotated[
    Click | DoubleClick | Move | Drag | Scroll | Type | Key | Wait | Done | Fail,
    Field(discriminator="action"),
]
action_adapter: TypeAdapter[Action] = TypeAdapter(Action)
recipe_adapter: TypeAdapter[list[Action]] = TypeAdapter(
    Annotated[list[Action], Field(min_length=1, max_length=50)]
)
