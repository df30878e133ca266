"""What a plan will cost and how long it will take: from history, or from a stated guess.

A forecast is for people. The caps hold whatever it says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from console.models import Workspace
from console.money import dollars
from desktops.actions.rates import rates_for
from desktops.models import TemplateVersion, Worker
from runs.models import Attempt, Run, Task

from .draft import Draft

HISTORY_DAYS = 30
HISTORY_RUNS = 5  # the latest runs looked at
HISTORY_ATTEMPTS = 200  # of each of them, the last to be played
HISTORY_LEAST = 5  # fewer say too little

# The guess without history: a desktop, the task's setup and the check; then each action with its screenshot.
GUESS_AROUND_SECONDS = 10.0
GUESS_ACTION_SECONDS = 2.0


@dataclass(frozen=True)
class Pace:
    """One attempt, in desktop seconds; `coverage` is the share of finished attempts with a valid verdict."""

    seconds: float
    coverage: float
    basis: str
    from_history: bool


@dataclass(frozen=True)
class End:
    """One thing that may end the run, and where the run will be when it does."""

    what: str
    attempts: int
    minutes: float
    cost: Decimal
    is_cap: bool


@dataclass(frozen=True)
class Forecast:
    pace: Pace
    rate: Decimal  # dollars a desktop hour
    at_once: int  # desktops
    hosts: int  # connected workers that have the image
    planned: int
    whole: End  # if nothing stops it
    ends: list[End]  # soonest first
    cap: Decimal | None
    time_cap: int

    @property
    def first(self) -> End:
        return self.ends[0]

    @property
    def cost_each(self) -> Decimal:
        return _cost(1, self.pace, self.rate)

    @property
    def verdict(self) -> str:
        if self.first is self.whole:
            return "Runs until every attempt has finished."
        if self.first.is_cap:
            return (
                f"Stops first at {self.first.what}, after about {self.first.attempts:,} of {self.planned:,}."
            )
        return f"Stops first at {self.first.what}."

    def data(self) -> dict[str, Any]:
        """The figures for the script that redraws this while somebody types."""
        return {
            "attempts": self.planned,
            "mean": round(self.pace.seconds, 3),
            "rate": f"{self.rate / 3600:.9f}",
            "slots": self.at_once,
            "coverage": round(self.pace.coverage, 4),
        }


def pace(workspace: Workspace, version: TemplateVersion, draft: Draft) -> Pace:
    """From the latest runs of this kind on this version. Flat however large they were: a few rows of each run's
    end by its index, and its counters."""
    since = timezone.now() - timedelta(days=HISTORY_DAYS)
    runs = Run.objects.for_workspace(workspace).filter(
        template_version=version, kind=draft.document.get("kind"), created_at__gte=since, done__gt=0
    )
    seconds: list[float] = []
    valid = finished = 0
    for run in runs.order_by("-number").only("pk", "done", "error", "valid")[:HISTORY_RUNS]:
        done = Attempt.objects.filter(run=run, status=Attempt.Status.DONE).order_by("-number")
        times = done.values_list("started_at", "ended_at")[:HISTORY_ATTEMPTS]
        seconds += [(end - start).total_seconds() for start, end in times if start and end and end >= since]
        valid, finished = valid + run.valid, finished + run.finished
    if len(seconds) >= HISTORY_LEAST:
        basis = f"from the last {len(seconds):,} attempts on {version}"
        return Pace(max(0.1, sum(seconds) / len(seconds)), valid / finished, basis, True)
    actions = _actions(draft)
    guess = GUESS_AROUND_SECONDS + GUESS_ACTION_SECONDS * actions
    history = f"only {len(seconds)} attempt{'s' * (len(seconds) > 1)}" if seconds else "no history"
    basis = (
        f"{history} on {version} yet: {GUESS_AROUND_SECONDS:.0f} s around an attempt and "
        f"{GUESS_ACTION_SECONDS:.0f} s for each action are assumed, of which there are about {actions:.0f}"
    )
    return Pace(guess, 1.0, basis, False)


def _actions(draft: Draft) -> float:
    """Mean length of the chosen tasks' recipes, bounded by max steps."""
    most = draft.number("max_steps")
    recipes = Task.objects.filter(
        task_set=draft.task_set(), task_id__in=draft.tasks, recipe__isnull=False
    ).values_list("recipe", flat=True)
    lengths = [min(most, len(recipe_actions(recipe))) for recipe in recipes]
    return sum(lengths) / len(lengths) if lengths else float(most)


def cut_short(draft: Draft) -> list[tuple[str, int]]:
    """Chosen tasks whose recipe has more actions than max steps allow, longest first: id, actions."""
    recipes = Task.objects.filter(
        task_set=draft.task_set(), task_id__in=draft.tasks, recipe__isnull=False
    ).values_list("task_id", "recipe")
    lengths = [(task, len(recipe_actions(recipe))) for task, recipe in recipes]
    longer = [(task, n) for task, n in lengths if n > draft.number("max_steps")]
    return sorted(longer, key=lambda one: (-one[1], one[0]))


def recipe_actions(recipe: Any) -> list[Any]:
    """The actions of a stored recipe: a list, or an object that holds one."""
    actions = recipe.get("actions", []) if isinstance(recipe, dict) else recipe
    return actions if isinstance(actions, list) else []


def hosts_for(workspace: Workspace, version: TemplateVersion) -> list[Worker]:
    """Connected workers that take work and have the image."""
    workers = Worker.objects.for_workspace(workspace).connected().filter(paused=False)
    return [worker for worker in workers if worker.has_image(version.template.name, version.digest)]


def forecast(workspace: Workspace, version: TemplateVersion, draft: Draft) -> Forecast:
    hosts = hosts_for(workspace, version)
    slots = sum(worker.slots for worker in hosts) or workspace.run_parallelism
    planned = max(1, draft.planned)
    at_once = max(1, min(slots, workspace.run_parallelism, planned))
    each = pace(workspace, version, draft)
    # Of several workers the dearest: better to spend less than foretold than more.
    rate = max(rates_for(version, hosts).values(), default=version.rate_usd_per_hour)
    cap, time_cap = _cap(draft), draft.number("time_cap_minutes")

    def end(what: str, attempts: float, *, is_cap: bool = False) -> End:
        whole = min(planned, max(0, math.floor(attempts)))
        minutes = math.ceil(whole / at_once) * each.seconds / 60
        return End(what, whole, minutes, _cost(whole, each, rate), is_cap)

    whole = end("every attempt has finished", planned)
    ends = [whole]
    cost_each = _cost(1, each, rate)
    if cap is not None and cost_each and cap / cost_each < planned:
        ends.append(end(f"the spend cap of {dollars(cap)}", float(cap / cost_each), is_cap=True))
    if time_cap < whole.minutes:
        rounds = math.floor(time_cap * 60 / each.seconds)
        ends.append(end(f"the time cap of {time_cap:,} min", rounds * at_once, is_cap=True))
    wanted = draft.document.get("stop_after_valid")
    if isinstance(wanted, int) and wanted > 0 and wanted / max(each.coverage, 0.01) < planned:
        target = math.ceil(wanted / max(each.coverage, 0.01))
        ends.append(end(f"{wanted:,} valid attempts", target))
    ends.sort(key=lambda one: (one.attempts, one is whole))
    return Forecast(each, rate, at_once, len(hosts), planned, whole, ends, cap, time_cap)


def _cost(attempts: int, each: Pace, rate: Decimal) -> Decimal:
    return Decimal(attempts) * Decimal(str(round(each.seconds, 3))) * rate / 3600


def _cap(draft: Draft) -> Decimal | None:
    """The spend cap as far as it is one; what is wrong with it is said beside its field."""
    if any(error.field == "spend_cap_usd" for error in draft.errors):
        return None
    return Decimal(str(draft.document["spend_cap_usd"]))
