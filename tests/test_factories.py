"""The factories make rows the database accepts."""

from __future__ import annotations

import pytest

from console.models import Workspace
from tests.factories import (
    PNG,
    AttemptFactory,
    AttemptTryFactory,
    EventFactory,
    RunFactory,
    StepFactory,
    recount,
)

pytestmark = pytest.mark.django_db


def test_a_run_with_everything_in_it(workspace: Workspace) -> None:
    run = RunFactory(workspace=workspace, status="running", planned=4)
    good = AttemptFactory(run=run, valid=True)
    AttemptFactory(run=run, valid=True, reward=0.0)
    AttemptFactory(run=run, faulty=True)
    AttemptFactory(run=run)
    step = StepFactory(attempt_try=AttemptTryFactory(attempt=good))
    EventFactory(run=run)
    recount(run)
    assert (run.done, run.error, run.valid, run.invalid, run.success, run.queued) == (2, 1, 2, 1, 1, 1)
    assert workspace.blobs.get().sha256 == step.screenshot
    assert PNG.startswith(b"\x89PNG")


@pytest.mark.parametrize("status", ["queued", "preparing", "running", "completed", "failed", "cancelled"])
def test_a_run_in_any_state(status: str) -> None:
    run = RunFactory(status=status)
    assert run.is_terminal == bool(run.ended_at)
