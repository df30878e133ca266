"""Budget: the workspace's cap, what is spent and reserved under it, by run and by day."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from django.contrib import messages
from django.db.models import Q, QuerySet, Sum
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from console.actions.budgets import CapRejected, CapTooLow, change_workspace_cap, root_budget
from console.actor import Actor
from console.models import Budget, LedgerTally, Workspace
from console.money import dollars
from console.pages.figures import place, share
from console.pages.loaders import WorkspaceRequest, managers_only, workspace_page
from console.pages.paging import by_number
from console.spending import so_far
from desktops.models import Hold
from runs.models import Run
from runs.pages.frame import never_stored

ROWS: Final = 25
DAYS: Final = 30
PLOT: Final = 120  # where the bars stand, px
HEADROOM: Final = 16  # above the top line, for its words
ROUND: Final = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))


class Bar(NamedTuple):
    """A day's column: its place and size, and what the day cost."""

    day: date
    cost: Decimal
    x: str
    width: str
    y: str
    height: str


@require_safe
@never_stored
@workspace_page
def budget(request: WorkspaceRequest) -> HttpResponse:
    return page(request, {})


def page(request: WorkspaceRequest, more: dict[str, Any], status: int = 200) -> HttpResponse:
    workspace = request.workspace
    root, now = root_budget(workspace), request.now
    runs = Run.objects.for_workspace(workspace).select_related("budget", "creator")
    shown = by_number(runs, request.GET, rows=ROWS, field="number")
    outside = outside_of_runs(workspace)
    going = list(outside.filter(reserved__gt=0))
    used = so_far(workspace, [root, *going, *(run.budget for run in shown.rows)], now)
    days = by_day(workspace, now.date(), running=used[root.pk].spent - root.spent)
    most = max((cost for _, cost in days), default=Decimal(0))
    step = grid_step(most)
    top = step * 4
    context = {
        "budget": root,
        "page": shown,
        "rows": [(run, used[run.budget_id]) for run in shown.rows],
        "bars": bars(days, top) if most else [],
        "grid": [(PLOT - (PLOT - HEADROOM) * part // 4, step * part) for part in (1, 2, 3, 4)],
        "ticks": [(bar.day, bar.x) for bar in bars(days, top)[3::7]],
        "spent_lately": sum((cost for _, cost in days), Decimal(0)),
        "days": DAYS,
        "now": used[root.pk],
        **spent(outside, {one: used[one.pk].spent - one.spent for one in going}),
        "typed": "" if root.cap is None else f"{root.cap:.2f}",
        **more,
    }
    return render(request, "runs/budget.html", context, status=status)


def outside_of_runs(workspace: Workspace) -> QuerySet[Budget]:
    """Those of opened computers and of evaluations; `evaluated` tells which."""
    holds = Hold.objects.for_workspace(workspace).values("budget")
    rows = Budget.objects.for_workspace(workspace).annotate(evaluated=Q(evaluation__isnull=False))
    return rows.filter(Q(evaluated=True) | Q(pk__in=holds))


def spent(outside: QuerySet[Budget], running: Mapping[Any, Decimal]) -> dict[str, Decimal]:
    """What was settled, and what desktops that run have cost so far, by budget."""
    sums = {
        name: Sum("spent", filter=Q(evaluated=kind), default=Decimal(0))
        for name, kind in (("computers", False), ("evaluations", True))
    }
    found: dict[str, Decimal] = outside.aggregate(**sums)
    for budget, cost in running.items():
        found["evaluations" if budget.evaluated else "computers"] += cost
    return found


def by_day(workspace: Workspace, today: date, *, running: Decimal) -> list[tuple[date, Decimal]]:
    """What was settled on each of the last DAYS days (UTC), oldest first, and today what desktops that run have cost
    so far, as if they ended now. Kept sums: one query, flat at any size."""
    first = today - timedelta(days=DAYS - 1)
    found = (
        LedgerTally.objects.for_workspace(workspace)
        .filter(span=LedgerTally.Span.DAY, since__gte=datetime.combine(first, time(), UTC))
        .values_list("since")
        .annotate(cost=Sum("cost"))
        .order_by()
    )
    costs = {since.astimezone(UTC).date(): cost for since, cost in found}
    costs[today] = costs.get(today, Decimal(0)) + running
    every = (first + timedelta(days=n) for n in range(DAYS))
    return [(day, costs.get(day, Decimal(0))) for day in every]


def grid_step(most: Decimal) -> Decimal:
    """A round amount that four of reach over the costliest day."""
    unit = Decimal(1).scaleb((most / 4).adjusted()) if most else Decimal(1)
    return next(unit * each for each in ROUND if unit * each * 4 >= most)


def bars(days: list[tuple[date, Decimal]], top: Decimal) -> list[Bar]:
    each = 100 / len(days)
    drawn = []
    for n, (day, cost) in enumerate(days):
        height = (PLOT - HEADROOM) * share(float(cost), float(top)) / 100
        tall = max(height, 2.0) if cost else 0.0  # a cent beside a hundred dollars is still seen
        drawn.append(
            Bar(day, cost, place((n + 0.12) * each), place(0.76 * each), f"{PLOT - tall:.1f}", f"{tall:.1f}")
        )
    return drawn


@require_POST
@workspace_page
@managers_only
def change_cap(request: WorkspaceRequest) -> HttpResponse:
    """`do=remove` takes the cap away; otherwise `cap` is the new one, in dollars."""
    typed = request.POST.get("cap", "").strip()[:40]
    cap: Decimal | None = None
    try:
        if request.POST.get("do") != "remove":
            cap = Decimal(typed.removeprefix("$").replace(",", ""))
        change_workspace_cap(request.workspace, cap=cap, actor=Actor.person(request.user))
    except InvalidOperation:
        return page(request, {"typed": typed, "error": "Write an amount in dollars, such as 25.00."}, 422)
    except (CapRejected, CapTooLow) as refused:
        return page(request, {"typed": typed, "error": str(refused)}, 422)
    messages.success(
        request,
        "The cap is gone: runs are bound by their own caps only."
        if cap is None
        else f"The cap is {dollars(cap)} now.",
    )
    return redirect("budget", request.workspace.slug)
