"""Filters of a list by what is in a closed set. A value that is not in it is told which are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django_filters import rest_framework as filters


def _told(choices: Iterable[tuple[str, Any]], options: dict[str, Any]) -> dict[str, Any]:
    values = [value for value, _ in choices] + ([options["null_value"]] if "null_value" in options else [])
    return {"invalid_choice": f"%(value)s is none of: {', '.join(values)}."}


class OneOf(filters.ChoiceFilter):
    def __init__(self, *, choices: Iterable[tuple[str, Any]], **options: Any) -> None:
        choices = list(choices)
        super().__init__(choices=choices, error_messages=_told(choices, options), **options)


class AnyOf(filters.MultipleChoiceFilter):
    """May be repeated."""

    def __init__(self, *, choices: Iterable[tuple[str, Any]], **options: Any) -> None:
        choices = list(choices)
        super().__init__(
            choices=choices, help_text="May be repeated.", error_messages=_told(choices, options), **options
        )
