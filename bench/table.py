"""Figures and how they are shown: samples, ratios, goals, one table."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Unit = Literal["s", "ms", "MiB"]
HEADS = ("what", "ours: median (min–max) of n", "peer or limit", "ratio", "goal", "reached")
NOTHING = "–"


@dataclass(frozen=True)
class Samples:
    """One or more measurements of one thing, in the unit of its figure."""

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("no measurement at all")

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def text(self, unit: Unit) -> str:
        """`1.23 s (1.10–1.61) of 7`; one measurement is only itself."""
        if len(self.values) == 1:
            return quantity(self.median, unit)
        low, high = number(min(self.values)), number(max(self.values))
        return f"{quantity(self.median, unit)} ({low}–{high}) of {len(self.values)}"


@dataclass(frozen=True)
class Peer:
    """What a figure is held against: another way to do the same, or a limit (one value)."""

    name: str
    samples: Samples


@dataclass(frozen=True)
class Figure:
    """Small is good in every figure. `goal` is the most it may be. A part belongs to the figure above it."""

    what: str
    unit: Unit
    ours: Samples
    peer: Peer | None = None
    goal: float | None = None
    part: bool = False

    @property
    def ratio(self) -> float | None:
        """How many times smaller ours is than the peer or limit, by medians; None without one."""
        if self.peer is None or self.ours.median == 0:
            return None
        return self.peer.samples.median / self.ours.median

    @property
    def reached(self) -> bool | None:
        return None if self.goal is None else self.ours.median <= self.goal

    def cells(self) -> tuple[str, ...]:
        peer = f"{self.peer.name}: {self.peer.samples.text(self.unit)}" if self.peer else NOTHING
        ratio = f"{number(self.ratio)}×" if self.ratio is not None else NOTHING
        goal = f"≤ {quantity(self.goal, self.unit)}" if self.goal is not None else NOTHING
        reached = {True: "yes", False: "no", None: NOTHING}[self.reached]
        name = f"  · {self.what}" if self.part else self.what
        return name, self.ours.text(self.unit), peer, ratio, goal, reached

    def document(self) -> dict[str, Any]:
        """As JSON: the samples themselves and what is computed of them."""
        document = asdict(self)
        for part in [document["ours"], *([document["peer"]["samples"]] if document["peer"] else [])]:
            part["values"] = [round(value, 4) for value in part["values"]]
            part["median"] = round(statistics.median(part["values"]), 4)
        ratio = self.ratio
        document["ratio"] = round(ratio, 4) if ratio is not None else None
        return {**document, "reached": self.reached}


@dataclass(frozen=True)
class Missing:
    """A figure that could not be measured, and why."""

    what: str
    why: str

    def document(self) -> dict[str, Any]:
        return asdict(self)


Row = Figure | Missing


def number(value: float) -> str:
    """Three significant digits at most, never in powers of ten: 0.0123, 1.23, 12.3, 123, 1234."""
    if value == 0:
        return "0"
    for bound, digits in ((0.01, 4), (0.1, 3), (10, 2), (100, 1)):
        if abs(value) < bound:
            return f"{value:.{digits}f}"
    return f"{value:.0f}"


def quantity(value: float, unit: Unit) -> str:
    return f"{number(value)} {unit}"


def table(rows: Sequence[Row]) -> str:
    """Aligned columns; what could not be measured has its reason in place of figures."""
    cells = [row.cells() for row in rows if isinstance(row, Figure)]
    widths = [max(len(line[column]) for line in [HEADS, *cells]) for column in range(len(HEADS))]
    lines = [_line(HEADS, widths), "  ".join("─" * width for width in widths)]
    for row in rows:
        if isinstance(row, Missing):
            lines.append(f"{row.what.ljust(widths[0])}  not measured: {row.why}")
        else:
            lines.append(_line(row.cells(), widths))
    return "\n".join(lines)


def document(rows: Sequence[Row], conditions: dict[str, Any]) -> str:
    return json.dumps(
        {"conditions": conditions, "figures": [row.document() for row in rows]}, indent=2, ensure_ascii=False
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
