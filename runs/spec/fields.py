"""Shape, types and ranges of a run document: the fields of `console.fields`, ranges from `runs.limits`."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from console.fields import Dollars, Name, RangedInteger, StrictDocument, StrictString
from runs import limits
from runs.models import Run


@extend_schema_field({"type": "object", "nullable": True, "description": "Must be null for a scripted test."})
class ModelField(serializers.JSONField):
    pass


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "A scripted test",
            request_only=True,
            value={
                "kind": "scripted_test",
                "name": "nightly smoke",
                "task_set": "deskyard-basics",
                "tasks": ["rename-folder", "make-folders"],
                "template": "basic@1",
                "parallel_copies": 2,
                "rounds": 1,
                "max_steps": 15,
                "spend_cap_usd": "0.50",
                "time_cap_minutes": 30,
            },
        )
    ]
)
class RunSpecSerializer(serializers.Serializer[Any]):
    """Shape, types and ranges. What needs the database is `check`'s."""

    kind = serializers.ChoiceField(
        choices=[Run.Kind.SCRIPTED_TEST.value],
        help_text="Replays recipes: the only kind that runs in this version. No model is asked.",
    )
    name = Name(
        max_length=limits.NAME_LENGTH,
        required=False,
        allow_null=True,
        allow_blank=True,
        default="",
        help_text="Made from the tasks when left out.",
    )
    task_set = StrictString(max_length=50, help_text="Name of a task set; its newest version is meant.")
    tasks = serializers.ListField(
        child=StrictString(max_length=100),
        min_length=limits.TASKS.low,
        max_length=limits.TASKS.high,
        help_text="Task ids of the set, each once.",
        error_messages={
            "not_a_list": "Must be a list of task ids.",
            "min_length": "Choose at least one task.",
            "empty": "Choose at least one task.",
            "max_length": f"At most {limits.TASKS.high} tasks fit in one run.",
        },
    )
    template = StrictString(max_length=80, help_text="A published version, such as basic@1.")
    parallel_copies = RangedInteger(
        limits.PARALLEL_COPIES,
        required=False,
        default=limits.PARALLEL_COPIES.default,
        help_text="Copies of each task; at most the workspace's run parallelism.",
    )
    fork_copies = RangedInteger(
        limits.FORK_COPIES,
        required=False,
        default=limits.FORK_COPIES.default,
        help_text="Above 1 needs at least one prefix step.",
    )
    prefix_steps = RangedInteger(
        limits.PREFIX_STEPS,
        required=False,
        default=limits.PREFIX_STEPS.default,
        help_text="Actions played once before the fork.",
    )
    max_steps = RangedInteger(
        limits.MAX_STEPS,
        required=False,
        default=limits.MAX_STEPS.default,
        help_text="Per attempt. A recipe with more actions is cut short there, and the checker judges what is done.",
    )
    rounds = RangedInteger(limits.ROUNDS, required=False, default=limits.ROUNDS.default)
    spend_cap_usd = Dollars(help_text="Measured compute cost never passes it.")
    time_cap_minutes = RangedInteger(
        limits.TIME_CAP_MINUTES, required=False, default=limits.TIME_CAP_MINUTES.default
    )
    stop_after_valid = RangedInteger(
        limits.STOP_AFTER_VALID,
        required=False,
        allow_null=True,
        default=None,
        help_text="Stop once so many attempts are valid; at most the planned attempts.",
    )
    model = ModelField(required=False, allow_null=True, default=None)


class CapsSerializer(StrictDocument):
    """Caps to put in force in place of those there are; what is left out stays."""

    no_such_field = "There is no such cap."

    spend_cap_usd = Dollars(required=False, help_text="Not below what is spent and reserved.")
    time_cap_minutes = RangedInteger(
        limits.TIME_CAP_MINUTES, required=False, help_text="Not below the minutes it has played."
    )


FIELDS = tuple(RunSpecSerializer().fields)
