"""Geometry of the server-drawn figures: percentages with a dot, so that templates only place them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol


class RateLike(Protocol):
    """What `runs.scoring.Rate` offers. All shares 0 … 1."""

    rate: float | None
    low: float | None
    high: float | None
    success: int
    fail: int
    no_verdict: int
    finished: int
    worst: float
    best: float


class Part(NamedTuple):
    x: str
    width: str
    css: str
    fill: str


def share(value: float, whole: float) -> float:
    """Percent of `whole`, within 0 … 100; 0 of nothing is 0."""
    return 0.0 if whole <= 0 else min(100.0, max(0.0, 100 * value / whole))


def place(percent: float) -> str:
    return f"{percent:.2f}%"


def segments(whole: float, parts: Mapping[str, float]) -> list[Part]:
    """Parts side by side from the left. A name is a class (`f_ok` → `f-ok`) or a hatch (`hatch_acc`)."""
    drawn: list[Part] = []
    x = 0.0
    for name, value in parts.items():
        width = min(share(value, whole), 100 - x)
        if width <= 0:
            continue
        css = name.replace("_", "-")
        hatched = css.startswith("hatch-")
        drawn.append(Part(place(x), place(width), "" if hatched else css, f"url(#{css})" if hatched else ""))
        x += width
    return drawn


def gauge(used: float, cap: float, reserved: float, forecast: float | None) -> dict[str, Any]:
    at = share(used, cap)
    return {
        "used": place(at),
        "reserved": place(min(share(reserved, cap), 100 - at)),
        "has_reserved": reserved > 0,
        "forecast": None if forecast is None else place(share(forecast, cap)),
    }


def whisker(rate: RateLike) -> dict[str, Any]:
    if rate.rate is None or rate.low is None or rate.high is None:
        return {"rate": rate, "at": None}
    return {
        "rate": rate,
        "at": place(100 * rate.rate),
        "low": place(100 * rate.low),
        "high": place(100 * rate.high),
    }


def honest_bar(rate: RateLike) -> dict[str, Any]:
    success = share(rate.success, rate.finished)
    hatch = share(rate.no_verdict, rate.finished)
    return {
        **whisker(rate),
        "success": place(success),
        "hatch": place(hatch),
        "best": place(success + hatch),
        "fail": place(max(0.0, 100 - success - hatch)) if rate.finished else place(0),
        "grid": [(place(at), f"{at}%", anchor) for at, anchor in _GRID],
    }


_GRID = ((0, "start"), (25, "middle"), (50, "middle"), (75, "middle"), (100, "end"))
