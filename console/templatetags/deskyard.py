"""Tags and filters that every template may use: icons, the status vocabulary, figures, numbers, times.

A status is always icon + word. Only the icon carries hue, except in a badge: that is for the one object a page is
about.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from console.money import dollars, money
from console.pages import figures, icons

register = template.Library()


class Look(NamedTuple):
    """How a value of the vocabulary is drawn: symbol of the sprite, word, class of its hue."""

    icon: str
    word: str
    hue: str = ""


LOOKS: dict[str | None, Look] = {
    # status, of attempts and of runs
    "queued": Look("queued", "Queued", "idle"),
    "preparing": Look("preparing", "Preparing", "live2"),
    "running": Look("running", "Running", "live2"),
    "recovering": Look("rotate-cw", "Recovering", "warn"),
    "verifying": Look("verifying", "Verifying", "live2"),
    "cancelling": Look("cancelled", "Cancelling", "live2"),
    "done": Look("done", "Done"),
    "completed": Look("done", "Completed"),
    "error": Look("error", "Error", "warn"),
    "failed": Look("error", "Failed", "warn"),
    "cancelled": Look("cancelled", "Cancelled", "idle"),
    # computers that somebody opens
    "waiting": Look("queued", "Waiting", "idle"),
    "starting": Look("preparing", "Starting", "live2"),
    "ready": Look("running", "Ready", "live2"),
    "closing": Look("cancelled", "Closing", "live2"),
    "closed": Look("done", "Closed", "idle"),
    # verifier
    "valid": Look("valid", "Valid"),
    "invalid": Look("invalid", "Invalid", "void"),
    "not_checked": Look("unchecked", "Not checked", "idle"),
    # outcome
    "success": Look("success", "Success", "ok"),
    "fail": Look("fail", "Fail", "bad"),
    # templates
    "draft": Look("pencil-line", "Draft", "idle"),
    "published": Look("badge-check", "Published"),
    "retired": Look("lock", "Retired", "idle"),
    # workers and tokens
    "connected": Look("wifi", "Connected"),
    "lost": Look("wifi-off", "Lost", "warn"),
    "removed": Look("ban", "Removed", "idle"),
    "left": Look("log-out", "Left", "idle"),
    "paused": Look("pause", "Paused", "idle"),
    "live": Look("key-round", "Live"),
    "expired": Look("timer", "Expired", "idle"),
    "revoked": Look("ban", "Revoked", "idle"),
    # saved desktops
    "held": Look("hard-drive", "Kept"),
    "leaving": Look("hourglass", "Being deleted", "idle"),
    "gone": Look("ban", "Gone", "idle"),
    # webhooks and what they carry
    "on": Look("webhook", "On"),
    "off": Look("pause", "Off", "idle"),
    "delivered": Look("circle-check", "Delivered"),
    "due": Look("queued", "Due", "idle"),
    "retrying": Look("rotate-cw", "Trying again", "warn"),
    "given_up": Look("triangle-alert", "Given up", "warn"),
}


@register.simple_tag
def icon(name: str, size: str = "") -> SafeString:
    """`{% icon "play" %}`; size "s" is 14 px, none is 16 px."""
    return format_html(
        '<svg class="i{}" aria-hidden="true"><use href="{}#{}"/></svg>',
        f" {size}" if size else "",
        icons.address(),
        name,
    )


@register.simple_tag
def status(value: str | None, word: str = "", extra: str = "") -> SafeString:
    """Any value of the vocabulary, for tables; `None` is an outcome that there is not."""
    if not value:
        return mark_safe('<span class="faint" title="No outcome">—<span class="sr">No outcome</span></span>')
    look = LOOKS[value]
    return format_html(
        '<span class="st {} {}">{}{}</span>', look.hue, extra, icon(look.icon), word or look.word
    )


@register.simple_tag
def event_icon(name: str) -> SafeString:
    """An event's icon: a value of the vocabulary brings its shape, anything else is a symbol by its own name."""
    return icon(LOOKS[name].icon if name in LOOKS else name, "s")


@register.simple_tag
def badge(value: str | None, word: str = "") -> SafeString:
    """The same for the one object a page is about."""
    if not value:
        return mark_safe('<span class="badge idle">No outcome</span>')
    look = LOOKS[value]
    return format_html('<span class="badge {}">{}{}</span>', look.hue, icon(look.icon), word or look.word)


@register.simple_tag
def kind(value: str) -> SafeString:
    """A run's kind. A scripted test wears its dashed frame wherever it goes."""
    if value == "scripted_test":
        return format_html('<span class="kind script">{}Scripted test</span>', icon("scroll-text", "s"))
    return format_html('<span class="kind">{}Evaluation</span>', icon("bot", "s"))


@register.simple_tag(takes_context=True)
def came_from(context: template.Context) -> str:
    """The address of ours whose link or form led here, for a way back; empty where there is none."""
    request = context.get("request")
    if request is None:
        return ""
    try:
        came = urlsplit(request.headers.get("Referer", ""))
    except ValueError:
        return ""
    if came.netloc != request.get_host() or came.path in ("", request.path) or came.path.startswith("//"):
        return ""
    return came.path + (f"?{came.query}" if came.query else "")


@register.simple_tag
def face(person: object) -> SafeString:
    """A person's initials in a disc; the name stands beside it."""
    initials = getattr(person, "initials", None) or "–"
    return format_html('<span class="face" aria-hidden="true">{}</span>', initials)


# ── figures ────────────────────────────────────────────────────────────────────────────────────────


@register.inclusion_tag("shared/gauge.html")
def gauge(
    label: str,
    used: float | Decimal,
    cap: float | Decimal,
    reserved: float | Decimal = 0,
    forecast: float | Decimal | None = None,
    text: str = "",
    note: str = "",
    first: bool = False,
) -> dict[str, Any]:
    """Solid = used, hatch = reserved or running, dark tick = forecast, vermilion tick = cap."""
    return {
        "label": label,
        "text": text,
        "note": note,
        "first": first,
        **figures.gauge(
            float(used), float(cap), float(reserved), None if forecast is None else float(forecast)
        ),
    }


@register.inclusion_tag("shared/segments.html")
def segments(label: str, whole: float, height: int = 8, **parts: float) -> dict[str, Any]:
    """A bar of parts of `whole`. A part's name is its class: `f_ok=3` or `hatch_acc=2`."""
    return {"label": label, "height": height, "parts": figures.segments(float(whole), parts)}


@register.inclusion_tag("shared/honest_bar.html")
def honest_bar(rate: Any) -> dict[str, Any]:
    """`runs.scoring.Rate`: success, no verdict, fail over finished attempts; rate over valid ones."""
    return figures.honest_bar(rate)


@register.inclusion_tag("shared/whisker.html")
def whisker(rate: Any) -> dict[str, Any]:
    """Rate and interval on one 0–100 % line, for tables."""
    return figures.whisker(rate)


# ── numbers ────────────────────────────────────────────────────────────────────────────────────────


@register.filter
def commas(value: int | None) -> str:
    return "—" if value is None else f"{value:,}"


register.filter("money", money)
register.filter("dollars", dollars)


@register.filter
def percent(value: float | None, places: int = 1) -> str:
    """`0.577` → `57.7%`."""
    return "—" if value is None else f"{value * 100:.{places}f}%"


@register.filter
def bare_percent(value: float | None, places: int = 1) -> str:
    """`0.577` → `57.7`, for the ends of an interval."""
    return "—" if value is None else f"{value * 100:.{places}f}"


@register.filter
def milliseconds(value: float | None) -> str:
    """`15.2` → `15 ms`, `1234` → `1.23 s`."""
    if value is None:
        return "—"
    return f"{value:.0f} ms" if value < 1000 else f"{value / 1000:.2f} s"


@register.filter
def seconds(value: float | None) -> str:
    """`0.21` → `0.21 s`, `12.4` → `12.4 s`."""
    if value is None:
        return "—"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


@register.filter
def duration(value: timedelta | float | None) -> str:
    """To the second: `2:04`, `1:05:20`, `3 d 04:10:00`."""
    if value is None:
        return "—"
    whole = int(value.total_seconds() if isinstance(value, timedelta) else value)
    whole = max(whole, 0)
    days, rest = divmod(whole, 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, secs = divmod(rest, 60)
    if days:
        return f"{days} d {hours:02}:{minutes:02}:{secs:02}"
    return f"{hours}:{minutes:02}:{secs:02}" if hours else f"{minutes}:{secs:02}"


@register.filter
def size(value: int | None) -> str:
    """Bytes: `14.2 kB`."""
    if value is None:
        return "—"
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError("unreachable")


@register.filter
def short_digest(value: str | None) -> str:
    """`sha256:9a02…be71`: enough to compare by eye, the whole one belongs in a title."""
    if not value:
        return "—"
    prefix, _, digest = value.rpartition(":")
    short = digest if len(digest) <= 12 else f"{digest[:6]}…{digest[-4:]}"
    return f"{prefix}:{short}" if prefix else short


_READABLE = re.compile(r"[a-z]+(-[a-z0-9]+)*")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@register.filter
def task_name(task: Any) -> str:
    """A few words for a task: its title, or its id where the title is but the instruction cut short."""
    cut = task.instruction.startswith(task.title.rstrip("… "))
    if cut and _READABLE.fullmatch(task.task_id) and not _UUID.fullmatch(task.task_id):
        return str(task.task_id).replace("-", " ").capitalize()
    return str(task.title)


@register.filter
def lookup(mapping: dict[Any, Any], key: object) -> Any:
    return mapping.get(key, "")


# ── times (UTC; the whole one is in the title) ─────────────────────────────────────────────────────


def _time(at: datetime, text: str) -> SafeString:
    at = at.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>', at.isoformat(), f"{at:%-d %B %Y, %H:%M:%S}", text
    )


@register.simple_tag
def ago(at: datetime | None) -> SafeString | str:
    """`just now`, `5 min ago`, `in 3 days`."""
    if at is None:
        return "never"
    gap = (timezone.now() - at).total_seconds()
    distance = abs(gap)
    if distance < 10:
        text = "just now"
    elif distance < 60:
        text = f"{distance:.0f} s"
    elif distance < 3_600:
        text = f"{distance / 60:.0f} min"
    elif distance < 86_400:
        text = f"{distance / 3_600:.0f} h"
    else:
        days = round(distance / 86_400)
        text = f"{days} day" if days == 1 else f"{days} days"
    if distance >= 10:
        text = f"{text} ago" if gap > 0 else f"in {text}"
    return _time(at, text)


@register.simple_tag
def when(at: datetime | None, with_seconds: bool = False) -> SafeString | str:
    """`Today 14:02`, `Yesterday 11:20`, `16 Mar 17:02`, with the year when it is another."""
    if at is None:
        return "—"
    at = at.astimezone(UTC)
    now = timezone.now().astimezone(UTC)
    clock_text = f"{at:%H:%M:%S}" if with_seconds else f"{at:%H:%M}"
    days = (now.date() - at.date()).days
    if days == 0:
        day = "Today"
    elif days == 1:
        day = "Yesterday"
    elif days == -1:
        day = "Tomorrow"
    else:
        day = f"{at:%-d %b}" if at.year == now.year else f"{at:%-d %b %Y}"
    return _time(at, f"{day} {clock_text}")


@register.filter
def lasted(one: Any) -> float | None:
    """How long something with started_at and ended_at took; None while it lasts."""
    return None if one.ended_at is None else (one.ended_at - one.started_at).total_seconds()


@register.filter
def since(at: datetime | None) -> float | None:
    """Seconds from then until now."""
    return None if at is None else (timezone.now() - at).total_seconds()


@register.simple_tag
def clock(at: datetime | None, with_seconds: bool = True) -> SafeString | str:
    """`14:43:21`."""
    if at is None:
        return "—"
    return _time(at, at.astimezone(UTC).strftime("%H:%M:%S" if with_seconds else "%H:%M"))
