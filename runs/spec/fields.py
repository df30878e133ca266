"""Shape, types and ranges of a run document: strict JSON types, ranges from `runs.limits`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_field, extend_schema_serializer
from rest_framework import serializers

from console.names import SENTENCE, is_one_line
from runs import limits
from runs.models import Run


class StrictString(serializers.CharField):
    """A JSON string; numbers are not turned into one."""

    default_error_messages = {"invalid": "Must be a string."}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Name(StrictString):
    default_error_messages = {"control_characters": SENTENCE}

    def to_internal_value(self, data: Any) -> str:
        name = super().to_internal_value(data)
        if not is_one_line(name):
            self.fail("control_characters")
        return name


class RangedInteger(serializers.IntegerField):
    """A JSON integer within a range of `runs.limits`; strings, booleans and 1.0 are not integers."""

    default_error_messages = {"invalid": "Must be a whole number."}

    def __init__(self, allowed: limits.Range, **options: Any) -> None:
        self.allowed = allowed
        span = f"Must be between {allowed.low:,} and {allowed.high:,}."
        options["error_messages"] = {"min_value": span, "max_value": span}
        super().__init__(min_value=allowed.low, max_value=allowed.high, **options)

    def to_internal_value(self, data: Any) -> int:
        if not isinstance(data, int) or isinstance(data, bool):
            self.fail("invalid")
        return data


@extend_schema_field({"type": "string", "pattern": r"^\d{1,6}(\.\d{1,2})?$", "example": "0.50"})
class Dollars(serializers.Field[Decimal, Any, str, Any]):
    """Dollars as a decimal string or a JSON number with at most two places, never rounded."""

    default_error_messages = {
        "invalid": 'Must be an amount in dollars, such as "0.50".',
        "too_many_decimals": "Whole cents only: at most two places after the point.",
        "min_value": f"Must be at least {limits.SPEND_CAP_MIN}: desktops cost money.",
        "max_value": f"Must be at most {limits.SPEND_CAP_MAX:,}.",
    }

    def to_internal_value(self, data: Any) -> Decimal:
        amount = self._amount(data)
        if amount <= 0:
            self.fail("min_value")
        if amount > limits.SPEND_CAP_MAX:
            self.fail("max_value")
        exponent = amount.as_tuple().exponent
        if isinstance(exponent, int) and -exponent > limits.SPEND_CAP_PLACES:
            self.fail("too_many_decimals")
        return amount.quantize(Decimal(1).scaleb(-limits.SPEND_CAP_PLACES))

    def _amount(self, data: Any) -> Decimal:
        if isinstance(data, bool) or not isinstance(data, str | int | float | Decimal):
            self.fail("invalid")
        if isinstance(data, str) and not re.fullmatch(r"-?[0-9]{1,40}(\.[0-9]{1,40})?", data.strip()):
            self.fail("invalid")
        try:
            # str() of a float is its shortest form, what its writer wrote: 0.1 is 0.1 here.
            amount = Decimal(str(data).strip())
        except (InvalidOperation, ValueError):
            self.fail("invalid")
        if not amount.is_finite():
            self.fail("invalid")
        return amount

    def to_representation(self, value: Decimal) -> str:
        return str(value)


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
        choices=[Run.Kind.SCRIPTED_TEST.value], help_text="Replays recipes. Evaluations are not offered yet."
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
        limits.MAX_STEPS, required=False, default=limits.MAX_STEPS.default, help_text="Per attempt."
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


class CapsSerializer(serializers.Serializer[Any]):
    """Caps to put in force in place of those there are; what is left out stays."""

    spend_cap_usd = Dollars(required=False, help_text="Not below what is spent and reserved.")
    time_cap_minutes = RangedInteger(
        limits.TIME_CAP_MINUTES, required=False, help_text="Not below the minutes it has played."
    )

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = {key: ["There is no such cap."] for key in data if key not in self.fields}
            if unknown:
                raise serializers.ValidationError(unknown, code="unknown_field")
        return super().to_internal_value(data)


FIELDS = tuple(RunSpecSerializer().fields)
