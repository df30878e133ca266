"""Template versions: published once, pinned by the digest of what the image is made from."""

from __future__ import annotations

from decimal import Decimal

from django.db import transaction
from django.utils import timezone

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
    version: int,
    digest: str,
) -> TemplateVersion:
    """Publish a version, or return it as it is when it is published already with this digest.

    Raises ValueError when the version was published with another digest: what ran under that name must not change.
    """
    template, _ = Template.objects.update_or_create(
        workspace=workspace, name=name, defaults={"title": title, "description": description, "apps": apps}
    )
    row, made = TemplateVersion.objects.select_for_update().get_or_create(
        template=template, version=version, defaults={"rate_usd_per_hour": FIRST_RATE}
    )
    if not made and row.status != TemplateVersion.Status.DRAFT:
        if row.digest != digest:
            raise ValueError(f"{row} is published with another image. Publish a new version.")
        return row
    row.digest, row.status, row.published_at = digest, TemplateVersion.Status.PUBLISHED, timezone.now()
    row.save()
    return row
