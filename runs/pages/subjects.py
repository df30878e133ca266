"""Attempts and prefixes, as the pages of desktops name them."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.urls import reverse

from console.models import Workspace
from desktops.subjects import Subject
from runs.models import Attempt, Prefix
from runs.pages.forks import GROUPS


def attempts_named(workspace: Workspace, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Subject]:
    rows = Attempt.objects.filter(workspace=workspace, pk__in=ids).values_list("pk", "run__number", "number")
    return {
        pk: Subject(f"Run #{run}, attempt {number:,}", reverse("attempt", args=[workspace.slug, run, number]))
        for pk, run, number in rows
    }


def prefixes_named(workspace: Workspace, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Subject]:
    rows = Prefix.objects.filter(workspace=workspace, pk__in=ids).values_list("pk", "run__number", "number")
    return {
        pk: Subject(
            f"Run #{run}, prefix {number:,}",
            f"{reverse('run-forks', args=[workspace.slug, run])}?page={(number - 1) // GROUPS + 1}",
        )
        for pk, run, number in rows
    }
