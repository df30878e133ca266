"""Attempts, as the pages of desktops name them."""

from __future__ import annotations

import uuid
from collections.abc import Collection

from django.urls import reverse

from console.models import Workspace
from desktops.subjects import Subject
from runs.models import Attempt


def attempts_named(workspace: Workspace, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, Subject]:
    rows = Attempt.objects.filter(workspace=workspace, pk__in=ids).values_list("pk", "run__number", "number")
    return {
        pk: Subject(f"Run #{run}, attempt {number:,}", reverse("attempt", args=[workspace.slug, run, number]))
        for pk, run, number in rows
    }
