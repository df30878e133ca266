"""When a run will stop, from its own pace so far. Seconds and dollars; nothing is guessed before the first result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from console.money import dollars
from console.spending import SoFar, so_far
from runs.models import Run


class End(NamedTuple):
    """One thing that would end the run, and when, in seconds from now."""

    name: str
    words: str
    seconds: float


@dataclass(frozen=True)
class Forecast:
    ends: list[End]
    spend: float
    elapsed: float
    at: datetime

    @property
    def first(self) -> End:
        return min(self.ends, key=lambda end: end.seconds)

    @property
    def stops_at(self) -> datetime:
        return self.at + timedelta(seconds=self.first.seconds)

    @property
    def total_seconds(self) -> float:
        """How long the run will have taken."""
        return self.elapsed + self.first.seconds

    @property
    def cost(self) -> float:
        """What the run will have cost."""
        return self.spend

    @property
    def hits_a_cap(self) -> bool:
        return self.first.name in ("spend", "time")


def forecast(run: Run, now: datetime, used: SoFar | None = None) -> Forecast | None:
    """None before the first attempt has finished, and once the run has ended. `used`: where it is known already."""
    if run.started_at is None or run.is_terminal or not run.finished:
        return None
    elapsed = max(run.time_used(now), 1.0)
    # Attempts that play are taken to be half done: else a run on many desktops looks slow until its first have ended.
    played = run.finished + (run.running + run.verifying) / 2
    to_play = run.planned - run.cancelled - played
    ends = [End("all", "every attempt has finished", to_play * elapsed / played)]
    target = run.spec.get("stop_after_valid")
    if target and run.valid:
        valid = run.valid / run.finished * played
        ends.append(End("valid", f"{target:,} valid attempts", max(0.0, target - valid) * elapsed / valid))
    deadline = run.deadline
    if deadline is not None:
        ends.append(
            End(
                "time",
                f"the time cap of {run.time_cap_minutes} min",
                max(0.0, (deadline - now).total_seconds()),
            )
        )
    # What is reserved ahead is held, not spent: it is given back, or used at the same pace.
    spent = (used or so_far(run.workspace, [run.budget], now)[run.budget_id]).spent
    rate = float(spent) / elapsed
    if rate > 0 and run.budget.cap is not None:
        left = float(max(Decimal(0), run.budget.cap - spent))
        ends.append(End("spend", f"the spend cap of {dollars(run.budget.cap)}", left / rate))
    first = min(ends, key=lambda end: end.seconds)
    spend = float(spent) + rate * first.seconds
    cap = float(run.budget.cap) if run.budget.cap is not None else spend
    return Forecast(ends, min(spend, cap), elapsed, now)
