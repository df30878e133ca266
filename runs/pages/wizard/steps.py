"""The five steps, in order, and which fields of the run document each of them asks for."""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    slug: str
    title: str
    fields: tuple[str, ...]


WORKLOAD = Step("workload", "Workload", ("kind", "task_set", "tasks", "name"))
ENVIRONMENT = Step("environment", "Environment", ("template",))
EXECUTION = Step(
    "execution", "Execution", ("parallel_copies", "rounds", "prefix_steps", "fork_copies", "max_steps")
)
BUDGET = Step("budget", "Budget", ("spend_cap_usd", "time_cap_minutes", "stop_after_valid"))
REVIEW = Step("review", "Review & launch", ())

STEPS = (WORKLOAD, ENVIRONMENT, EXECUTION, BUDGET, REVIEW)
BY_SLUG = {step.slug: step for step in STEPS}

LABELS = {
    "kind": "Kind",
    "task_set": "Task set",
    "tasks": "Tasks",
    "name": "Name",
    "template": "Template version",
    "parallel_copies": "Parallel copies per task",
    "rounds": "Rounds",
    "prefix_steps": "Prefix steps",
    "fork_copies": "Fork copies",
    "max_steps": "Max steps",
    "spend_cap_usd": "Spend cap",
    "time_cap_minutes": "Time cap",
    "stop_after_valid": "Stop after valid attempts",
}


def step_of(field: str) -> Step:
    """The step that asks for a field; `tasks.3` and the like belong to their first part."""
    name = field.split(".")[0].split("[")[0]
    return next((step for step in STEPS if name in step.fields), WORKLOAD)


def after(step: Step) -> Step:
    return STEPS[STEPS.index(step) + 1]


def before(step: Step) -> Step | None:
    index = STEPS.index(step)
    return STEPS[index - 1] if index else None
