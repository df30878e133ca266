"""The log of a console: a line for each refusal, a traceback for what broke."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from django.test import Client

from console.models import User, Workspace


def test_a_refusal_is_a_line_without_a_traceback(
    workspace: Workspace, member: User, client_for: Callable[[User], Client], caplog: pytest.LogCaptureFixture
) -> None:
    assert client_for(member).get(f"/w/{workspace.slug}/settings/").status_code == 403
    (said,) = [record for record in caplog.records if record.name == "django.request"]
    assert "Forbidden" in said.getMessage()
    assert said.exc_info is None


def test_what_breaks_keeps_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("django.request")
    try:
        raise ValueError("broken")
    except ValueError:
        logger.error("Internal Server Error", exc_info=True, extra={"status_code": 500})
    assert caplog.records[-1].exc_info
