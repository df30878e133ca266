"""Drafts of template versions go without a trace, their images too; what is published stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from desktops.models import Ask, DiscardedImage, Template, TemplateVersion, Worker

# A worker may name an image only some time after it was made.
UNNAMED: Final = timedelta(minutes=10)
CLEAR_AT_ONCE: Final = 200  # rows a pass


@transaction.atomic
def drop(draft: TemplateVersion) -> None:
    """Its template goes too, if it has no other version."""
    template = Template.objects.select_for_update().get(
        pk=draft.template_id
    )  # no new version of it meanwhile
    if draft.digest:
        DiscardedImage.objects.update_or_create(
            workspace=template.workspace, digest=draft.digest, defaults={"discarded_at": timezone.now()}
        )
    draft.delete()
    if not template.versions.exists():
        template.delete()


def images_to_forget(worker: Worker) -> list[str]:
    """Digests of what the worker shall remove. What has not changed makes the same image again: one that is another
    version's too stays, and while one is being made, it may become that."""
    versions = TemplateVersion.objects.filter(digest=OuterRef("digest"))
    being_made = Ask.objects.filter(
        hold__workspace=OuterRef("workspace"), what=Ask.What.MAKE_IMAGE, status=Ask.Status.ASKED
    )
    discarded = DiscardedImage.objects.for_workspace(worker.workspace)
    unwanted = discarded.exclude(Exists(versions)).exclude(Exists(being_made))
    return list(unwanted.order_by("pk").values_list("digest", flat=True))


def clear_discarded() -> int:
    """Of what no worker names any longer nothing is left to do. For the supervisor's pass; how many those were."""
    old = DiscardedImage.objects.filter(discarded_at__lt=timezone.now() - UNNAMED).order_by("discarded_at")
    gone = [
        row.pk
        for row in old[:CLEAR_AT_ONCE]
        if not Worker.objects.filter(
            workspace=row.workspace_id, images__contains=[{"digest": row.digest}]
        ).exists()
    ]
    if gone:
        DiscardedImage.objects.filter(pk__in=gone).delete()
    return len(gone)
