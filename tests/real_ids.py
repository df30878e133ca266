"""What the addresses of the API name, of one workspace: an id that is there for each kind of thing."""

from __future__ import annotations

from runs.models import Run
from tests.factories import AttemptFactory, HoldFactory, PrefixTryFactory


def real_ids(run: Run) -> dict[str, str]:
    """First part of the address after /v1/ → id. What the run's workspace has none of yet is made."""
    attempt = run.attempts.first() or AttemptFactory(run=run, valid=True)
    prefix = PrefixTryFactory(prefix__run=run, actions=[{"action": "wait"}]).prefix
    hold = HoldFactory(workspace=run.workspace, ready=True)
    return {
        "runs": str(run.pk),
        "attempts": str(attempt.pk),
        "prefixes": str(prefix.pk),
        "computers": str(hold.pk),
        "states": str(prefix.state_id),
    }
