"""Metrics: each gives a figure from 0 to 1 for a found and an expected value. Named as in the task format.

Reimplemented from what OSWorld's metrics do. A metric reads files by `readers` alone, so that what a desktop
has spoilt becomes a 0 and any other fault the checker's own.
"""

from . import (  # noqa: F401  (they fill the registry)
    browser,
    images,
    mail,
    media,
    office_settings,
    presentations,
    records,
    sheets,
    texts,
    values,
    writer,
)
from .registry import METRICS, Metric

__all__ = ["METRICS", "Metric"]
