"""What all tabs of a run share: its head, its tabs, and whether it is live."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from console.pages.loaders import WorkspaceRequest
from console.spending import so_far
from desktops.models import Computer
from runs.actions.stop import may_cancel
from runs.models import Run
from runs.pages import sentences
from runs.pages.loaders import base_template

never_stored = never_cache

TABS: Final = (
    ("run", "Overview"),
    ("run-rollouts", "Rollouts"),
    ("run-forks", "Forks"),
    ("run-computers", "Computers"),
    ("run-metrics", "Metrics"),
    ("run-events", "Events"),
    ("run-configuration", "Configuration"),
)


@dataclass(frozen=True)
class Tab:
    href: str
    word: str
    current: bool
    count: str
    full: str


def short_count(n: int) -> str:
    """Tabs alone may shorten a count; its title has it in full."""
    return f"{n:,}" if n < 1_000_000 else f"{n / 1_000_000:.2f} M"


def optional_address(name: str, *arguments: object) -> str:
    """The page's address, or nothing where the app that has it is not installed."""
    try:
        return reverse(name, args=arguments)
    except NoReverseMatch:
        return ""


def frame(request: WorkspaceRequest, run: Run, tab: str) -> dict[str, Any]:
    slug = request.workspace.slug
    held = Computer.objects.for_workspace(request.workspace).filter(group=run.pk).held().count()
    # Of computers only those held now are counted, so none is no news.
    numbers = {"run-rollouts": run.planned, **({"run-computers": held} if held else {})}
    return {
        "base_template": base_template(request),
        "slug": slug,
        "run": run,
        "tabs": [
            Tab(
                reverse(name, args=[slug, run.number]),
                word,
                name == tab,
                short_count(numbers[name]) if name in numbers else "",
                f"{numbers[name]:,}" if name in numbers else "",
            )
            for name, word in TABS
            if name != "run-forks" or run.spec["fork_copies"] > 1
        ],
        "held": held,
        "so_far": so_far(request.workspace, [run.budget], timezone.now())[run.budget_id],
        "plan": sentences.plan(run),
        "elapsed": run.time_used(timezone.now()) if run.started_at else None,
        "counts_from": run.going_since and run.going_since - timedelta(seconds=run.earlier_seconds),
        "may_cancel": not run.is_terminal
        and run.status != Run.Status.CANCELLING
        and may_cancel(run, request.membership),
        "may_change_caps": not run.is_terminal
        and not run.stop_reason
        and may_cancel(run, request.membership),
        "may_retry": may_retry(run) and may_cancel(run, request.membership),
        "rerun_url": optional_address("run-rerun", slug, run.number),
        "provenance_url": optional_address("run-provenance-page", slug, run.number),
    }


def may_retry(run: Run) -> bool:
    """Whether there may be attempts to try again: a bound from the counters. The verb counts them."""
    ending = bool(run.stop_reason) and not run.is_terminal
    return run.status != Run.Status.CANCELLED and not ending and run.finished > run.valid


def render_tab(
    request: WorkspaceRequest, run: Run, tab: str, template: str, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    reply = render(request, template, {**frame(request, run, tab), **context}, status=status)
    reply["Vary"] = "HX-Request, Cookie"
    return reply
