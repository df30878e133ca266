"""The progress grid: a row a task and a cell an attempt, or above CELLS attempts a bar a task from totals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, NamedTuple

from console.pages.figures import Part, segments
from console.templatetags.deskyard import LOOKS
from runs.models import Run, Task
from runs.scoring import TaskTotal

CELLS: Final = 600
TASKS_A_PAGE: Final = 40
# More cells than these in a row, and the rows stand in one column.
CELLS_IN_HALF_A_ROW: Final = 12
# Up to these in each row, a cell is as large as a fingertip.
ROOMY_CELLS: Final = 6


class Cell(NamedTuple):
    """`number` is None for an attempt of a round that is not stored yet."""

    number: int | None
    icon: str
    hue: str
    word: str
    gap: bool


@dataclass(frozen=True)
class Row:
    task: Task
    cells: Sequence[Cell]
    total: TaskTotal

    @property
    def success(self) -> int:
        return self.total.success

    @property
    def valid(self) -> int:
        return self.total.valid


@dataclass(frozen=True)
class Bar:
    task: Task
    total: TaskTotal
    parts: Sequence[Part]
    to_come: int


def drawn_as(status: str, verifier: str, outcome: str | None) -> str:
    """One icon a cell: not ended, its status; else error, invalid, success or fail in this order."""
    if status != "done":
        return status
    if verifier == "invalid":
        return "invalid"
    return outcome or "not_checked"


def rows(run: Run, tasks: Mapping[int, Task]) -> list[Row]:
    """One query, whatever the size up to CELLS."""
    by_task: dict[int, list[tuple[Any, ...]]] = {pk: [] for pk in run.task_ids}
    stored = run.attempts.order_by("number").values_list(
        "number", "task_id", "status", "verifier", "outcome", "round"
    )
    for attempt in stored:
        by_task.setdefault(attempt[1], []).append(attempt)
    each = run.planned // max(len(run.task_ids), 1)
    left_out = "cancelled" if run.is_terminal else "queued"
    return [_row(tasks[pk], by_task[pk], each, left_out) for pk in run.task_ids if pk in tasks]


def _row(task: Task, attempts: Sequence[tuple[Any, ...]], each: int, left_out: str) -> Row:
    """`left_out`: what attempts of rounds that were never stored count as."""
    cells: list[Cell] = []
    last_round = 1
    several = any(one[5] == other[5] for one, other in pairwise(attempts))
    for number, _, status, verifier, outcome, round_ in attempts:
        look = LOOKS[drawn_as(status, verifier, outcome)]
        cells.append(Cell(number, look.icon, look.hue, look.word, several and round_ != last_round))
        last_round = round_
    unplayed = LOOKS[left_out]
    cells += [Cell(None, unplayed.icon, unplayed.hue, unplayed.word, False)] * max(0, each - len(cells))
    finished = [attempt for attempt in attempts if attempt[2] in ("done", "error")]
    valid = [attempt for attempt in finished if attempt[3] == "valid"]
    success = sum(attempt[4] == "success" for attempt in valid)
    return Row(task, cells, TaskTotal(len(finished), len(valid), success))


def bars(run: Run, tasks: Mapping[int, Task], totals: Mapping[int, TaskTotal]) -> list[Bar]:
    each = run.planned / max(len(run.task_ids), 1)
    drawn = []
    for task in tasks.values():
        total = totals.get(task.pk, TaskTotal(0, 0, 0))
        parts = segments(
            each, {"f_ok": total.success, "hatch_void": total.no_verdict, "f_failbg": total.fail}
        )
        drawn.append(Bar(task, total, parts, int(each) - total.finished))
    return drawn


def tasks_of(run: Run, page: int | None = None) -> dict[int, Task]:
    """The run's tasks in its order; of one page of bars, counted from 1, only these."""
    pks = run.task_ids
    if page is not None:
        pks = pks[(page - 1) * TASKS_A_PAGE : page * TASKS_A_PAGE]
    found = Task.objects.only("pk", "task_id", "title", "instruction", "task_set_id").in_bulk(pks)
    return {pk: found[pk] for pk in pks if pk in found}
