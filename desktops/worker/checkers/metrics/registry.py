"""The registry of metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# metric(found, **options) or metric(found, expected, **options) → 0 … 1
Metric = Callable[..., Any]
METRICS: dict[str, Metric] = {}


def metric(*names: str) -> Callable[[Metric], Metric]:
    """Register a metric under its name in the task format, and under its other names there."""

    def register(function: Metric) -> Metric:
        for name in names:
            METRICS[name] = function
        return function

    return register
