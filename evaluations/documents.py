"""Shape, types and ranges of what is submitted. What one field means for another is `rules`' to say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.fields import RangedInteger, StrictDocument, StrictString
from console.names import is_one_line, said_back
from evaluations import limits
from evaluations.judges import BadJudge, parse

DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
DAYS: Final = re.compile(r"([1-9][0-9]{0,3})d|never")


@extend_schema_field({"type": "boolean"})
class StrictBoolean(serializers.Field[bool, Any, bool, Any]):
    """true or false, and nothing that might be taken for one."""

    default_error_messages = {"invalid": "Must be true or false."}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return data

    def to_representation(self, value: bool) -> bool:
        return value


class _Environment(StrictDocument):
    """Exactly one of `one_of` names what it is made of."""

    one_of: tuple[str, ...] = ()


class SandboxEnvironment(_Environment):
    kind = serializers.ChoiceField(choices=["sandbox"])
    state = serializers.UUIDField(required=False, help_text="A saved desktop.")
    template = StrictString(max_length=80, required=False, help_text="A published version, such as basic@1.")

    one_of = ("state", "template")


class TaskEnvironment(_Environment):
    kind = serializers.ChoiceField(choices=["task"])
    image = StrictString(max_length=300, required=False, help_text="A runner's image, name@sha256:….")
    catalog = StrictString(
        max_length=100, required=False, help_text="An entry of the catalog, which names one."
    )

    one_of = ("image", "catalog")


class OpenenvEnvironment(_Environment):
    kind = serializers.ChoiceField(choices=["openenv"])
    image = StrictString(
        max_length=300, required=False, help_text="An OpenEnv server's image, name@sha256:…."
    )

    one_of = ("image",)


ENVIRONMENTS: Final[dict[str, type[_Environment]]] = {
    "sandbox": SandboxEnvironment,
    "task": TaskEnvironment,
    "openenv": OpenenvEnvironment,
}


@extend_schema_field({"type": "object", "required": ["kind"]})
class EnvironmentField(serializers.Field[dict[str, Any], Any, dict[str, Any], Any]):
    default_error_messages = {
        "invalid": "Must be an object with a kind: sandbox, task or openenv.",
        "one_of": "Must name {what}.",
    }

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        kind = data.get("kind") if isinstance(data, Mapping) else None
        if not isinstance(kind, str) or kind not in ENVIRONMENTS:
            self.fail("invalid")
        document = ENVIRONMENTS[kind](data=data)
        document.is_valid(raise_exception=True)
        found = dict(document.validated_data)
        if sum(name in found for name in document.one_of) != 1:
            self.fail(
                "one_of",
                what=" or ".join(document.one_of) + (", not both" if len(document.one_of) > 1 else ""),
            )
        return found

    def to_representation(self, value: dict[str, Any]) -> dict[str, Any]:
        return value


@extend_schema_field({"type": "string", "example": "osworld@v1"})
class JudgeField(StrictString):
    def to_internal_value(self, data: Any) -> Any:
        try:
            return parse(super().to_internal_value(data))
        except BadJudge as error:
            raise serializers.ValidationError(str(error), code="bad_judge") from error

    def to_representation(self, value: Any) -> str:
        return str(value.text)


@extend_schema_field({"oneOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "integer"}]})
class SeedsField(serializers.Field[list[int], Any, list[int], Any]):
    """A list of integers, or n for 0 … n-1."""

    default_error_messages = {
        "invalid": "Must be a list of whole numbers, or one number n for 0 … n-1.",
        "range": "Each seed must fit into 64 bits, with its sign.",
        "count": "Must be {low:,} to {high:,} seeds.",
    }

    def to_internal_value(self, data: Any) -> list[int]:
        if _is_whole(data):
            self._counted(data)
            return list(range(data))
        if not isinstance(data, list) or not all(map(_is_whole, data)):
            self.fail("invalid")
        self._counted(len(data))
        if any(not limits.SEED.low <= seed <= limits.SEED.high for seed in data):
            self.fail("range")
        return data

    def _counted(self, count: int) -> None:
        if not limits.ROWS.low <= count <= limits.ROWS.high:
            self.fail("count", low=limits.ROWS.low, high=limits.ROWS.high)

    def to_representation(self, value: list[int]) -> list[int]:
        return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@extend_schema_field({"oneOf": [{"type": "object"}, {"type": "array", "items": {"type": "object"}}]})
class SpecField(serializers.Field[list[dict[str, Any]], Any, Any, Any]):
    """One object, or a list of them: each is played with each seed."""

    default_error_messages = {
        "invalid": "Must be an object, or a list of objects.",
        "count": "At most {high:,} fit into one batch.",
        "empty": "The list has no spec in it.",
    }

    def to_internal_value(self, data: Any) -> list[dict[str, Any]]:
        specs = data if isinstance(data, list) else [data]
        if not all(isinstance(spec, dict) for spec in specs):
            self.fail("invalid")
        if not specs:
            self.fail("empty")
        if len(specs) > limits.ROWS.high:
            self.fail("count", high=limits.ROWS.high)
        return specs

    def to_representation(self, value: Any) -> Any:
        return value


@extend_schema_field({"type": "object", "additionalProperties": True})
class EnvField(serializers.Field[dict[str, Any], Any, Any, Any]):
    """Variables of the runner: text, or {"secret": "NAME"} for one of the workspace's sealed secrets."""

    default_error_messages = {
        "invalid": "Must be an object of variables.",
        "count": "At most {most} variables.",
        "name": "{name} is no name of a variable.",
        "value": '{name} must be a text, or {{"secret": "NAME"}}.',
    }

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("invalid")
        if len(data) > limits.ENV:
            self.fail("count", most=limits.ENV)
        for name, value in data.items():
            if not VARIABLE.fullmatch(name):
                self.fail("name", name=said_back(name))
            if not (isinstance(value, str) and len(value) <= limits.TEXT_LENGTH) and not _names_secret(value):
                self.fail("value", name=name)
        return data

    def to_representation(self, value: Any) -> Any:
        return value


def _names_secret(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {"secret"}
        and isinstance(value["secret"], str)
        and VARIABLE.fullmatch(value["secret"]) is not None
    )


@extend_schema_field({"type": "object", "additionalProperties": {"type": "string"}})
class LabelsField(serializers.Field[dict[str, str], Any, Any, Any]):
    default_error_messages = {
        "invalid": "Must be an object of short texts.",
        "count": "At most {most} labels.",
    }

    def to_internal_value(self, data: Any) -> dict[str, str]:
        if not isinstance(data, dict) or not all(_is_label(name) and _is_label(data[name]) for name in data):
            self.fail("invalid")
        if len(data) > limits.LABELS:
            self.fail("count", most=limits.LABELS)
        return data

    def to_representation(self, value: Any) -> Any:
        return value


def _is_label(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= limits.NAME_LENGTH and is_one_line(value)


class Batch(StrictDocument):
    """What is added to a set; it is submitted as a `Submission`."""

    no_such_field = "Rollouts have no such field."

    environment = EnvironmentField()
    judge = JudgeField()
    spec = SpecField(
        required=False, help_text="What is asked of the environment; of a list each with each seed."
    )
    seeds = SeedsField(required=False, allow_null=True)
    policy = StrictString(max_length=200, required=False, allow_null=True, help_text="Part of the identity.")
    profile = serializers.ChoiceField(
        choices=["eval", "train"], required=False, allow_null=True, default="eval"
    )
    memo = StrictBoolean(required=False, allow_null=True)
    repro_class = serializers.ChoiceField(
        choices=["bit-exact", "seeded-stochastic", "unrepeatable"], required=False, allow_null=True
    )
    group = RangedInteger(limits.GROUP, required=False, allow_null=True)
    chip = StrictString(max_length=50, required=False, allow_null=True)
    gpu = StrictString(max_length=50, required=False, allow_null=True, help_text="Alias of chip.")
    command = StrictString(max_length=limits.TEXT_LENGTH, required=False, allow_null=True)
    env = EnvField(required=False)
    egress = serializers.ChoiceField(choices=["none", "open"], required=False, allow_null=True)
    lease_batch = RangedInteger(limits.LEASE_BATCH, required=False, allow_null=True)
    runners = RangedInteger(limits.RUNNERS, required=False, allow_null=True)
    max_duration_minutes = RangedInteger(limits.MAX_DURATION_MINUTES, required=False, allow_null=True)
    state_expires_after = serializers.RegexField(DAYS, required=False, allow_null=True)
    labels = LabelsField(required=False, default=dict)
    mission = serializers.SlugField(max_length=limits.NAME_LENGTH, required=False, allow_null=True)
    open = StrictBoolean(required=False, allow_null=True, default=False)
    idempotency_key = StrictString(max_length=255, required=False, allow_null=True)


class Submission(Batch):
    name = serializers.SlugField(
        max_length=limits.NAME_LENGTH, help_text="Once on this console, whichever workspace has it."
    )
