"""Getters: each reads one kind of thing from a desktop. Registered under the task format's names."""

from . import apps, browser, commands, files, rules, screen  # noqa: F401  (they fill the registry)
from .registry import GETTERS, Getter

__all__ = ["GETTERS", "Getter"]
