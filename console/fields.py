"""Fields of the documents that people send: strict JSON types, ranges, money to the cent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from .limits import CAP_MAX, CAP_MIN, CAP_PLACES, Range
from .names import SENTENCE, is_one_line, said_back


class StrictDocument(serializers.Serializer[Any]):
    """A field that it does not have is refused by its name, so that none is taken for one that does something."""

    no_such_field = "There is no such field."

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            refused = [ErrorDetail(self.no_such_field, "unknown_field")]
            if unknown := {said_back(key): refused for key in data if key not in self.fields}:
                raise serializers.ValidationError(unknown)
        return super().to_internal_value(data)


def valid(document: type[StrictDocument], data: Any) -> dict[str, Any]:
    """What a request said, as that document. Raises ValidationError."""
    asked = document(data=data)
    asked.is_valid(raise_exception=True)
    return dict(asked.validated_data)


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
    """A JSON integer within a range; strings, booleans and 1.0 are not integers."""

    default_error_messages = {"invalid": "Must be a whole number."}

    def __init__(self, allowed: Range, **options: Any) -> None:
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
        "min_value": f"Must be at least {CAP_MIN}: desktops cost money.",
        "max_value": f"Must be at most {CAP_MAX:,}.",
    }

    def to_internal_value(self, data: Any) -> Decimal:
        amount = self._amount(data)
        if amount <= 0:
            self.fail("min_value")
        if amount > CAP_MAX:
            self.fail("max_value")
        exponent = amount.as_tuple().exponent
        if isinstance(exponent, int) and -exponent > CAP_PLACES:
            self.fail("too_many_decimals")
        return amount.quantize(Decimal(1).scaleb(-CAP_PLACES))

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
