"""Rates are the one thing about a published version that may change."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse

from console.models import User, Workspace
from desktops.models import TemplateVersion
from tests import factories


@pytest.fixture
def version(workspace: Workspace) -> TemplateVersion:
    return factories.TemplateVersionFactory(workspace=workspace)


@pytest.fixture
def staff(client_for: Callable[[User], Client], db: None) -> Client:
    return client_for(factories.UserFactory(is_staff=True, is_superuser=True))


def _post(staff: Client, version: TemplateVersion, rate: str) -> None:
    address = reverse("admin:desktops_templateversion_change", args=[version.pk])
    staff.post(address, {"rate_usd_per_hour": rate, "digest": "sha256:other", "status": "draft"})
    version.refresh_from_db()


def test_a_rate_can_be_changed_and_nothing_else_with_it(staff: Client, version: TemplateVersion) -> None:
    before = version.digest
    _post(staff, version, "0.25")
    assert version.rate_usd_per_hour == Decimal("0.25")
    assert (version.digest, version.status) == (before, "published")


@pytest.mark.parametrize("rate", ["0", "-1", "much"])
def test_a_rate_that_would_escape_every_cap_is_refused(
    staff: Client, version: TemplateVersion, rate: str
) -> None:
    before = version.rate_usd_per_hour
    _post(staff, version, rate)
    assert version.rate_usd_per_hour == before
