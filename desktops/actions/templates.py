"""Template versions: published once, pinned by the digest of what the image is made from."""

from __future__ import annotations

from decimal import Decimal

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from console.actions.audit import record
from console.actor import Actor
from console.doorbell import ring
from console.models import Workspace
from desktops.models import Template, TemplateVersion

FIRST_RATE = Decimal("0.06")  # dollars an hour, until the operator sets another in the admin


@transaction.atomic
def publish_template(
    *,
    workspace: Workspace,
    name: str,
    title: str,
    description: str,
    apps: list[str],
    digest: str,
    actor: Actor,
) -> TemplateVersion:
    """Publish the image of this digest: as the version that has it already, else as the next one."""
    template, _ = Template.objects.update_or_create(
        workspace=workspace, name=name, defaults={"title": title, "description": description, "apps": apps}
    )
    known = template.versions.filter(digest=digest, status=TemplateVersion.Status.PUBLISHED).first()
    if known is not None:
        return known
    newest = template.versions.aggregate(newest=Max("version"))["newest"] or 0
    published = TemplateVersion.objects.create(
        template=template,
        version=newest + 1,
        digest=digest,
        status=TemplateVersion.Status.PUBLISHED,
        published_at=timezone.now(),
        rate_usd_per_hour=FIRST_RATE,
    )
    record(
        workspace=workspace,
        actor=actor,
        action="template.published",
        subject=f"template {published}",
        detail={"digest": digest, "rate_usd_per_hour": str(FIRST_RATE)},
    )
    return published


@transaction.atomic
def retire_template(version: TemplateVersion, *, actor: Actor) -> bool:
    """No new runs of this version; those that play go on. False when it was not published (any longer)."""
    retired = TemplateVersion.objects.filter(pk=version.pk, status=TemplateVersion.Status.PUBLISHED).update(
        status=TemplateVersion.Status.RETIRED
    )
    if not retired:
        return False
    version.status = TemplateVersion.Status.RETIRED
    record(
        workspace=version.template.workspace,
        actor=actor,
        action="template.retired",
        subject=f"template {version}",
    )
    ring("supervisor")
    return True
