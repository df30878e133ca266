from typing import Any

import pytest
from django.db import IntegrityError, transaction

from console.actor import Actor
from console.models import AuditEntry, Workspace
from desktops.actions.templates import publish_template, retire_template
from desktops.models import TemplateVersion
from tests.factories import sha256


def publish(workspace: Workspace, content: str) -> TemplateVersion:
    return publish_template(
        workspace=workspace,
        name="basic",
        title="Basic desktop",
        description="",
        apps=["terminal"],
        digest=f"sha256:{sha256(content)}",
        actor=Actor.system(),
    )


def test_the_first_image_is_version_1_and_another_the_next(workspace: Workspace) -> None:
    assert str(publish(workspace, "one")) == "basic@1"
    assert str(publish(workspace, "two")) == "basic@2"


def test_an_image_that_is_published_already_stays_what_it_is(workspace: Workspace) -> None:
    first = publish(workspace, "one")
    publish(workspace, "two")
    assert publish(workspace, "one") == first
    assert TemplateVersion.objects.count() == 2


@pytest.mark.parametrize(
    "change",
    [{"digest": "sha256:other"}, {"egress": "open"}, {"status": "draft"}, {"memory_mb": 4096}, {"cpus": "4"}],
)
def test_a_published_version_cannot_change(workspace: Workspace, change: dict[str, Any]) -> None:
    first = publish(workspace, "one")
    with pytest.raises(IntegrityError), transaction.atomic():
        TemplateVersion.objects.filter(pk=first.pk).update(**change)


def test_its_rate_may_change_and_it_may_be_retired(workspace: Workspace) -> None:
    first = publish(workspace, "one")
    changed = TemplateVersion.objects.filter(pk=first.pk).update(rate_usd_per_hour="0.12", status="retired")
    assert changed == 1


def test_a_retired_version_takes_no_new_runs_and_says_so_in_the_audit_log(workspace: Workspace) -> None:
    first = publish(workspace, "one")
    assert retire_template(first, actor=Actor.system())
    first.refresh_from_db()
    assert first.status == TemplateVersion.Status.RETIRED
    assert not retire_template(first, actor=Actor.system())
    assert AuditEntry.objects.filter(action="template.retired", subject="template basic@1").count() == 1
