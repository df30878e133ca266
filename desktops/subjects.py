"""What an assignment was for, as a page names it: each kind is named by who stands above, like its handler."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from django.utils.module_loading import import_string

from console.models import Workspace
from desktops.models import Assignment


class Subject(NamedTuple):
    words: str
    href: str


Namer = Callable[[Workspace, Collection[uuid.UUID]], Mapping[uuid.UUID, Subject]]
_namers: dict[str, str] = {}


def name_subjects(kind: str, namer: str) -> None:
    """Register who names the subjects of a kind, all in one query: a `Namer`'s dotted path, since only processes that
    show pages have a use for it. Once a process, at its start."""
    _namers[kind] = namer


def subjects(workspace: Workspace, assignments: Iterable[Assignment]) -> dict[uuid.UUID, Subject]:
    """By subject, those that somebody can name. A query a kind."""
    asked: dict[str, set[uuid.UUID]] = defaultdict(set)
    for assignment in assignments:
        asked[assignment.kind].add(assignment.subject)
    found: dict[uuid.UUID, Subject] = {}
    for kind, ids in asked.items():
        if path := _namers.get(kind):
            namer: Namer = import_string(path)
            found.update(namer(workspace, ids))
    return found
