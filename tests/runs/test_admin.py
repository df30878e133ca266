"""Cancel as operator: the verb that pages and API call, with staff as its actor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from console.models import User, Workspace
from runs.models import Run
from tests import factories


@pytest.fixture
def staff(client_for: Callable[[User], Client], db: None) -> Client:
    return client_for(factories.UserFactory(is_staff=True, is_superuser=True))


def _cancel(staff: Client, *runs: Run) -> str:
    form = {"action": "cancel_as_operator", "_selected_action": [str(run.pk) for run in runs]}
    reply = staff.post(reverse("admin:runs_run_changelist"), form, follow=True)
    assert reply.status_code == 200
    return str(reply.content.decode())


def test_a_run_of_any_workspace_is_cancelled_by_the_operator(staff: Client, workspace: Workspace) -> None:
    run = factories.RunFactory(workspace=workspace)
    assert "1 told to stop." in _cancel(staff, run)
    run.refresh_from_db()
    assert run.stop_reason == Run.StopReason.CANCELLED_BY_OPERATOR
    assert run.status in (Run.Status.CANCELLING, Run.Status.CANCELLED)


def test_a_run_that_has_ended_is_named_and_left_alone(staff: Client, workspace: Workspace) -> None:
    run = factories.RunFactory(workspace=workspace, status=Run.Status.COMPLETED)
    assert "Ended already" in _cancel(staff, run)
    run.refresh_from_db()
    assert run.stop_reason == Run.StopReason.ALL_TASKS_DONE
