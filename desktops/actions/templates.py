"""Template versions: built or made from an open computer, published once, pinned by the digest of what they hold."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from console.actions.audit import record
from console.actions.workspaces import require_manager
from console.actor import Actor
from console.doorbell import ring
from console.models import Workspace
from desktops.models import Ask, Hold, Template, TemplateVersion

from . import asks, holds
from .drafts import drop

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
    published = TemplateVersion.objects.create(
        template=template,
        version=_next(template),
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


class NotADraft(Exception):
    """Only a draft can be published or discarded; a published version stays as it is."""

    def __str__(self) -> str:
        return str(self.__doc__)


class NotMadeYet(Exception):
    """Its image is still being made on its worker."""

    def __str__(self) -> str:
        return str(self.__doc__)


@transaction.atomic
def draft_from(hold: Hold, *, name: str, title: str = "", actor: Actor) -> Ask:
    """Have an image made of what the open computer has now: the next version of that template, a draft.

    A name that no template has yet makes one, of that title. Raises NotAllowed, NotReady; then there is no draft.
    """
    row = holds.locked(hold.pk)
    base = row.template_version
    template = _kept(row.workspace, name, {"title": title or name, "apps": base.template.apps})
    draft = TemplateVersion.objects.create(
        template=template,
        version=_next(template),
        base=base,
        made_by=actor.label[:120],
        rate_usd_per_hour=base.rate_usd_per_hour,
        memory_mb=base.memory_mb,
        cpus=base.cpus,
        egress=base.egress,
    )
    ask = asks.put(
        row, Ask.What.MAKE_IMAGE, actor=actor, what_for="save it as a template version", version=draft
    )
    record(
        workspace=row.workspace,
        actor=actor,
        action="template.drafted",
        subject=f"template {draft}",
        detail={"of": f"computer {row}", "base": str(base)},
    )
    return ask


@transaction.atomic
def publish_draft(version: TemplateVersion, *, actor: Actor) -> TemplateVersion:
    """From now on it can be run, and never changes. Raises NotAllowed, NotADraft, NotMadeYet."""
    row = _draft(version, actor, what="publish template versions")
    if not row.digest:
        raise NotMadeYet
    row.status, row.published_at = TemplateVersion.Status.PUBLISHED, timezone.now()
    row.save(update_fields=["status", "published_at"])
    record(
        workspace=row.template.workspace,
        actor=actor,
        action="template.published",
        subject=f"template {row}",
        detail={"digest": row.digest, "rate_usd_per_hour": str(row.rate_usd_per_hour)},
    )
    ring("supervisor")
    return row


@transaction.atomic
def discard_draft(version: TemplateVersion, *, actor: Actor) -> None:
    """Nothing of it stays here. Raises NotAllowed, NotADraft, NotMadeYet."""
    row = _draft(version, actor, what="discard drafts")
    if not row.digest:
        raise NotMadeYet
    workspace, subject = row.template.workspace, f"template {row}"
    drop(row)
    record(workspace=workspace, actor=actor, action="template.discarded", subject=subject)


def _draft(version: TemplateVersion, actor: Actor, *, what: str) -> TemplateVersion:
    require_manager(version.template.workspace, actor, what=what)
    rows = TemplateVersion.objects.select_for_update(no_key=True, of=("self",))
    row = rows.select_related("template__workspace").filter(pk=version.pk).first()
    if row is None or row.status != TemplateVersion.Status.DRAFT:
        raise NotADraft
    return row


def _kept(workspace: Workspace, name: str, defaults: dict[str, Any]) -> Template:
    """The template of that name, made where there is none, and locked: its last draft may be discarded meanwhile."""
    while True:
        template, _ = Template.objects.get_or_create(workspace=workspace, name=name, defaults=defaults)
        locked: Template | None = (
            Template.objects.select_for_update(no_key=True).filter(pk=template.pk).first()
        )
        if locked is not None:
            return locked


def _next(template: Template) -> int:
    """The template's row is locked, so that two of one number cannot be."""
    Template.objects.select_for_update(no_key=True).get(pk=template.pk)
    return (template.versions.aggregate(newest=Max("version"))["newest"] or 0) + 1
