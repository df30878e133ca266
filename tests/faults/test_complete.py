"""The lists that a reader of this product is promised are the code's lists, and each entry is reached for real.

Each name below is written out once more, so that an entry that is added or dropped is noticed here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from desktops.models import Assignment
from runs.models import Attempt, Run

from . import test_forks as forks
from . import test_services as services
from . import test_stop_reasons as reasons
from . import test_workers as workers

Test = Callable[..., None]

STOP_REASONS: dict[str, Test] = {
    "all_tasks_done": reasons.test_all_tasks_done,
    "verified_target_reached": reasons.test_verified_target_reached,
    "budget_exceeded": reasons.test_budget_exceeded,
    "time_cap_reached": reasons.test_time_cap_reached,
    "workspace_budget_exceeded": reasons.test_workspace_budget_exceeded,
    "cancelled_by_user": reasons.test_cancelled_by_user,
    "cancelled_by_operator": reasons.test_cancelled_by_operator,
    "worker_lost": reasons.test_worker_lost,
    "infrastructure_failure": reasons.test_infrastructure_failure,
    "config_rejected": reasons.test_config_rejected,
}
RUN_STATUSES: dict[str, Test] = {
    "queued": reasons.test_verifying,
    "preparing": reasons.test_verifying,
    "running": reasons.test_verifying,
    "verifying": reasons.test_verifying,
    "cancelling": reasons.test_cancelled_by_user,
    "recovering": workers.test_cut_off,
    "completed": reasons.test_all_tasks_done,
    "failed": reasons.test_worker_lost,
    "cancelled": reasons.test_cancelled_by_user,
}
ATTEMPT_STATUSES: dict[str, Test] = {
    "queued": reasons.test_verifying,
    "running": reasons.test_verifying,
    "verifying": reasons.test_verifying,
    "done": reasons.test_verifying,
    "error": reasons.test_infrastructure_failure,
    "cancelled": reasons.test_cancelled_by_user,
}
VERIFIERS: dict[str, Test] = {
    "valid": reasons.test_all_tasks_done,
    "invalid": reasons.test_all_tasks_done,
    "not_checked": reasons.test_infrastructure_failure,
}
OUTCOMES: dict[str, Test] = {
    "success": reasons.test_all_tasks_done,
    "fail": reasons.test_all_tasks_done,
}
ASSIGNMENTS: dict[str, Test] = {
    "offered": reasons.test_all_tasks_done,
    "held": reasons.test_all_tasks_done,
    "stopping": reasons.test_cancelled_by_user,
    "ended": reasons.test_all_tasks_done,
    "lost": workers.test_frozen,
}
FAULTS: dict[str, Test] = {
    "worker killed": workers.test_killed,
    "worker frozen": workers.test_frozen,
    "websocket cut": workers.test_cut_off,
    "console killed": services.test_a_console_that_is_killed_and_comes_back_loses_and_doubles_nothing,
    "supervisor killed": services.test_a_spare_supervisor_goes_on_where_the_leader_was_killed,
    "supervisor killed in the middle of a pass": (
        services.test_a_spare_supervisor_goes_on_where_the_leader_was_killed_in_the_middle_of_a_pass
    ),
    "database restarted": services.test_a_database_that_is_restarted_at_once_loses_nothing,
    "container killed": workers.test_container_killed,
    "engine restarted": services.test_an_engine_whose_service_is_restarted_keeps_its_desktops,
    "engine away below desktops on runc": (
        services.test_desktops_that_are_no_containers_play_on_while_the_engine_with_their_images_is_away
    ),
    "disk full": workers.test_disk_full,
    "worker killed while it saves a desktop": forks.test_killed_while_saving,
    "worker killed while it restores one": forks.test_killed_while_restoring,
    "disk full while a desktop is saved": forks.test_disk_full_while_saving,
}


@pytest.mark.parametrize(
    ("known", "named"),
    [
        (Run.StopReason, STOP_REASONS),
        (Run.Status, RUN_STATUSES),
        (Attempt.Status, ATTEMPT_STATUSES),
        (Attempt.Verifier, VERIFIERS),
        (Attempt.Outcome, OUTCOMES),
        (Assignment.Status, ASSIGNMENTS),
    ],
    ids=["stop reasons", "run statuses", "attempt statuses", "verifiers", "outcomes", "assignments"],
)
def test_every_entry_is_reached_by_a_test_and_no_other_is_known(
    known: object, named: dict[str, Test]
) -> None:
    assert set(known.values) == set(named)  # type: ignore[attr-defined]


def test_every_reason_ends_a_run_in_one_way() -> None:
    ends = {reason.value: status.value for reason, status in Run.ENDS_AS.items()}
    completed = ("all_tasks_done", "verified_target_reached", "budget_exceeded", "time_cap_reached")
    assert ends == {
        **dict.fromkeys((*completed, "workspace_budget_exceeded"), "completed"),
        **dict.fromkeys(("cancelled_by_user", "cancelled_by_operator"), "cancelled"),
        **dict.fromkeys(("worker_lost", "infrastructure_failure", "config_rejected"), "failed"),
    }


@pytest.mark.parametrize(
    "named", [STOP_REASONS, RUN_STATUSES, ATTEMPT_STATUSES, VERIFIERS, OUTCOMES, ASSIGNMENTS, FAULTS]
)
def test_each_is_reached_on_real_desktops(named: dict[str, Test]) -> None:
    for test in named.values():
        module = inspect.getmodule(test)
        assert "desktop" in {mark.name for mark in module.pytestmark}, test  # type: ignore[union-attr]
