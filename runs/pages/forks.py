"""Forks: the tree of a forking run, a page of groups at a time. A group is one task, copy and round: the prefix that
its attempts share, the screen they part from, and how each of them ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, NamedTuple

from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from console.pages.loaders import WorkspaceRequest, workspace_page
from console.pages.paging import typed_number
from console.templatetags.deskyard import LOOKS, Look
from runs.models import Attempt, Prefix, Run, Step, Task
from runs.pages import sentences
from runs.pages.frame import never_stored, render_tab
from runs.pages.loaders import run_or_404
from runs.pages.waffle import drawn_as

GROUPS: Final = 20


class Branch(NamedTuple):
    """The screen that the forks of a group part from, of `step`; the attempt whose replay has it, where one began."""

    screenshot: str
    attempt: int | None
    step: int


@dataclass(frozen=True)
class Leaf:
    attempt: Attempt
    look: Look
    reasons: str
    compared: float | None  # seconds that it took to see that it began like its parent

    @property
    def method(self) -> str:
        """Empty until it has begun: only then it is sure."""
        return self.attempt.fork_method if self.attempt.tries else ""


@dataclass(frozen=True)
class Group:
    task: Task
    round: int
    copy: int
    leaves: Sequence[Leaf]
    branch: Branch | None
    prefix: Prefix | None
    why: str  # it could not be saved, in words

    @property
    def success(self) -> int:
        return sum(leaf.attempt.outcome == Attempt.Outcome.SUCCESS for leaf in self.leaves)

    @property
    def valid(self) -> int:
        return sum(leaf.attempt.verifier == Attempt.Verifier.VALID for leaf in self.leaves)

    @property
    def live(self) -> int:
        """Forks of the saved desktop itself."""
        return sum(leaf.method == Attempt.ForkMethod.LIVE for leaf in self.leaves)

    @property
    def alike(self) -> int:
        """Forks whose files, programs and screen were their parent's when they began."""
        return sum(leaf.compared is not None for leaf in self.leaves)

    @property
    def replayed(self) -> int:
        return sum(leaf.method == Attempt.ForkMethod.REPLAY for leaf in self.leaves)


@require_safe
@never_stored
@workspace_page
def forks(request: WorkspaceRequest, number: int) -> HttpResponse:
    run = run_or_404(request, number)
    each = run.spec["fork_copies"]
    if each < 2:
        return redirect("run", request.workspace.slug, run.number)
    stored = run.rounds_created * (run.planned // run.spec["rounds"]) // each
    pages = max(1, math.ceil(stored / GROUPS))
    at = min(max(typed_number(request.GET.get("page", "")) or 1, 1), pages)
    first = (at - 1) * GROUPS
    context = {
        "groups": groups(run, first),
        "forks": each,
        "prefix_steps": run.spec["prefix_steps"],
        "stored": stored,
        "to_come": run.planned // each - stored,
        "first": first + 1,
        "last": min(first + GROUPS, stored),
        "newer": f"?page={at - 1}" if at > 1 else "",
        "older": f"?page={at + 1}" if at < pages else "",
    }
    return render_tab(request, run, "run-forks", "runs/forks.html", context)


def siblings(run: Run, one: Attempt) -> list[int]:
    """Numbers of the other forks of its group; none where the run does not fork."""
    each = run.spec["fork_copies"]
    first = (one.number - 1) // each * each + 1
    return [number for number in range(first, first + each) if number != one.number]


def page_of(run: Run, one: Attempt) -> int:
    """Of the tab Forks, where its group is drawn."""
    return (one.number - 1) // run.spec["fork_copies"] // GROUPS + 1


def groups(run: Run, first: int) -> list[Group]:
    """GROUPS of them after `first`, in the order of play: attempts of a group have neighbouring numbers, so this reads
    as few rows at any size."""
    each = run.spec["fork_copies"]
    numbers = (first * each + 1, (first + GROUPS) * each)
    attempts = list(
        run.attempts.filter(number__range=numbers)
        .select_related("task")
        .defer("task__document", "task__recipe")
        .order_by("number")
    )
    parted, compared = branches(run, attempts), comparisons(run, *numbers)
    shared = run.prefixes.filter(number__range=(first + 1, first + GROUPS)).with_cost()
    prefixes = {prefix.number: prefix for prefix in shared.select_related("computer", "state")}
    made = []
    for place, found in groupby(attempts, lambda one: (one.number - 1) // each):
        leaves = [_leaf(one, compared.get(one.number)) for one in found]
        one, prefix = leaves[0].attempt, prefixes.get(place + 1)
        branch = next((parted[leaf.attempt.pk] for leaf in leaves if leaf.attempt.pk in parted), None)
        if prefix is not None and prefix.screenshot and prefix.steps == run.spec["prefix_steps"]:
            begun = next((leaf.attempt.number for leaf in leaves if leaf.method == "live"), None)
            branch = Branch(prefix.screenshot, begun, prefix.steps)
        why = sentences.reasons(prefix.invalid_reasons) if prefix else ""
        made.append(Group(one.task, one.round, one.copy, leaves, branch, prefix, why))
    return made


def _leaf(one: Attempt, compared: float | None) -> Leaf:
    look = LOOKS[drawn_as(one.status, one.verifier, one.outcome)]
    return Leaf(one, look, sentences.reasons(one.invalid_reasons), compared)


def comparisons(run: Run, first: int, last: int) -> dict[int, float]:
    """By number, of these attempts: the seconds it took to see that its last desktop was like its parent. One query."""
    told = run.events.filter(kind="forked", attempt_number__range=(first, last)).order_by("seq")
    seen = {number: data for number, data in told.values_list("attempt_number", "data") if number}
    return {number: data["seconds"] for number, data in seen.items() if not data["differences"]}


def branches(run: Run, attempts: Sequence[Attempt]) -> dict[object, Branch]:
    """By attempt: the screen after the last step of the prefix, where it has one. One query."""
    begun = {one.pk: one.number for one in attempts if one.tries}
    last = run.spec["prefix_steps"]
    found = (
        Step.objects.filter(attempt_try__attempt__in=begun, number=last)
        .order_by("-attempt_try__number")
        .values_list("attempt_try__attempt_id", "screenshot")
    )
    return {pk: Branch(screenshot, begun[pk], last) for pk, screenshot in found if screenshot}
