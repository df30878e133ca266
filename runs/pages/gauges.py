"""What a run has used of what it may use, and the key of its progress grid."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.html import format_html

from console.money import dollars, money
from console.spending import SoFar
from console.templatetags.deskyard import duration
from runs import scoring
from runs.models import Run
from runs.pages.forecast import Forecast


@dataclass(frozen=True)
class Gauge:
    label: str
    used: float
    cap: float
    text: str
    note: str
    reserved: float = 0.0
    forecast: float | None = None
    first: bool = False


@dataclass(frozen=True)
class Key:
    icon: str
    hue: str
    word: str
    count: int
    query: str


def gauges(run: Run, coming: Forecast | None, used: SoFar, now: datetime) -> list[Gauge]:
    """The one that stops the run first comes first."""
    found = [_spend(run, coming, used), _time(run, coming, now)]
    target = run.spec.get("stop_after_valid")
    if target:
        note = "Target met" if run.valid >= target else ""
        valid = Gauge("Valid attempts", run.valid, target, f"{run.valid:,} of {target:,}", note)
        found.insert(0, valid)
    if not run.is_terminal:
        found.append(_attempts(run))
    if coming:
        names = {"valid": "Valid attempts", "spend": "Spend", "time": "Time", "all": "All attempts"}
        first = names[coming.first.name]
        found = [Gauge(**{**vars(one), "first": one.label == first}) for one in found]
        found.sort(key=lambda one: not one.first)
    return found


def _spend(run: Run, coming: Forecast | None, used: SoFar) -> Gauge:
    cost = scoring.cost(run)
    cap, left = cost["cap_usd"], cost["left_usd"]
    if run.is_terminal:
        note = f"{money(left)} of the cap not used" if left else "All of the cap used"
    else:
        note = f"{money(used.ahead)} reserved · {money(left)} left"
        note += f" · forecast {money(coming.cost)}" if coming else ""
    return Gauge(
        "Spend",
        float(used.spent),
        float(cap),
        f"{money(used.spent)}{'' if run.is_terminal else ' so far,'} of {dollars(cap)}",
        note,
        float(used.ahead),
        coming.cost if coming else None,
    )


def _time(run: Run, coming: Forecast | None, now: datetime) -> Gauge:
    cap = run.time_cap_minutes * 60
    used = run.time_used(now)
    if run.is_terminal:
        note = "Cap reached" if run.stop_reason == Run.StopReason.TIME_CAP_REACHED else "Cap not reached"
    elif run.deadline:
        note = f"Cap at {run.deadline:%H:%M:%S}"
        note += f" · forecast {duration(coming.total_seconds)}" if coming else ""
    else:
        note = "Counts from the first desktop"
    text = f"{duration(used)} of {duration(cap)}"
    if run.going_since and not run.is_terminal:  # goes on between two looks, as the clock in the head does
        since = run.going_since - timedelta(seconds=run.earlier_seconds)
        clock = format_html('<span data-since="{}">{}</span>', since.isoformat(), duration(used))
        text = format_html("{} of {}", clock, duration(cap))
    return Gauge(
        "Time",
        used,
        cap,
        text,
        note,
        forecast=coming.total_seconds if coming else None,
    )


def _attempts(run: Run) -> Gauge:
    playing = run.running + run.verifying
    word = "starting" if run.status == Run.Status.PREPARING else "playing"
    return Gauge(
        "All attempts",
        run.finished,
        run.planned,
        f"{run.finished:,} of {run.planned:,}",
        f"{playing:,} {word} · {run.finished / run.planned:.1%} finished",
        playing,
    )


def key(run: Run) -> list[Key]:
    """What the cells' icons mean, with the run's count of each, as links to these attempts."""
    # A verdict comes a moment before the attempt's desktop is gone: shown by its outcome from then on.
    every = [
        Key("success", "ok", "Success", run.success, "outcome=success"),
        Key("fail", "bad", "Fail", run.fail, "outcome=fail"),
        Key("invalid", "void", "Invalid", run.invalid, "verifier=invalid"),
        Key("error", "warn", "Error", run.error, "status=error"),
        Key("running", "live2", "Running", run.running, "status=running"),
        Key("verifying", "live2", "Verifying", run.verifying - run.judged, "status=verifying"),
        Key("queued", "idle", "Queued", run.queued, "status=queued"),
        Key("cancelled", "idle", "Cancelled", run.cancelled, "status=cancelled"),
    ]
    return [one for one in every if one.count]
