"""Caps raised and lowered while a run is going: what is allowed, who may, and that the supervisor reads them."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from console.actor import Actor
from console.models import AuditEntry, User
from runs import scoring
from runs.actions.caps import CapsRejected, MayNotChange, NotGoing, change_cap
from runs.models import Run
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

NewRun = Callable[..., Run]


def fresh(run: Run) -> Run:
    return Run.objects.select_related("budget").get(pk=run.pk)


def test_both_caps_change_and_the_request_keeps_what_was_asked(new_run: NewRun, owner: User) -> None:
    run = new_run()
    change_cap(run, spend_cap_usd=Decimal("2.00"), time_cap_minutes=90, actor=Actor.person(owner))
    run = fresh(run)
    assert scoring.caps(run) == {"spend_cap_usd": Decimal("2.00"), "time_cap_minutes": 90}
    assert (run.spec["spend_cap_usd"], run.spec["time_cap_minutes"]) == ("0.50", 30)


def test_a_change_is_in_the_log_and_in_the_audit_log(new_run: NewRun, owner: User) -> None:
    run = new_run()
    change_cap(run, spend_cap_usd=Decimal("2.00"), actor=Actor.person(owner))
    [event] = run.events.filter(kind="cap_changed")
    assert event.data["spend_cap_usd"] == "2.00"
    assert event.data["spend_cap_was_usd"] == "0.50"
    assert event.data["time_cap_minutes"] is None
    entry = AuditEntry.objects.get(action="run.cap_changed")
    assert (entry.subject, entry.detail) == (
        f"run #{run.number}",
        {"spend_cap_usd": "2.00", "spend_cap_was_usd": "0.50"},
    )


def test_the_same_caps_again_change_nothing(new_run: NewRun, owner: User) -> None:
    run = new_run()
    change_cap(run, spend_cap_usd=Decimal("0.50"), time_cap_minutes=30, actor=Actor.person(owner))
    assert not run.events.filter(kind="cap_changed").exists()


def test_the_supervisor_reads_a_lowered_time_cap(new_run: NewRun, worker: PaperWorker, owner: User) -> None:
    run = new_run()
    one_pass()
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(minutes=5, seconds=50))
    change_cap(run, time_cap_minutes=6, actor=Actor.person(owner))
    one_pass()
    assert fresh(run).stop_reason == ""
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(minutes=6))
    one_pass()
    assert fresh(run).stop_reason == "time_cap_reached"


def test_a_raised_spend_cap_lets_the_run_go_on(new_run: NewRun, worker: PaperWorker, owner: User) -> None:
    run = new_run(tasks=["task-1"], rounds=2, spend_cap_usd="0.01")
    one_pass()
    [first, _second] = worker.offered()
    budget = fresh(run).budget
    budget.spent = budget.cap - budget.reserved  # as if earlier desktops had cost the rest
    budget.save()
    change_cap(run, spend_cap_usd=Decimal("1.00"), actor=Actor.person(owner))
    worker.play(first)
    one_pass()
    assert fresh(run).stop_reason == ""
    assert scoring.cost(fresh(run))["left_usd"] > Decimal("0.9")


def test_a_spend_cap_below_spent_and_reserved_says_the_lowest_possible(
    new_run: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = new_run(spend_cap_usd="1.00")
    one_pass()
    budget = fresh(run).budget
    budget.spent = Decimal("0.311")
    budget.save()
    with pytest.raises(CapsRejected) as refused:
        change_cap(run, spend_cap_usd=Decimal("0.31"), actor=Actor.person(owner))
    [error] = refused.value.errors
    assert (error.field, error.code) == ("spend_cap_usd", "below_spent")
    assert "$0.32" in error.message
    change_cap(run, spend_cap_usd=Decimal("0.32"), actor=Actor.person(owner))


@pytest.mark.parametrize(
    ("caps", "field"),
    [
        ({"spend_cap_usd": Decimal("0.00")}, "spend_cap_usd"),
        ({"spend_cap_usd": Decimal("100001")}, "spend_cap_usd"),
        ({"time_cap_minutes": 0}, "time_cap_minutes"),
        ({"time_cap_minutes": 1441}, "time_cap_minutes"),
    ],
)
def test_caps_stay_in_their_ranges(new_run: NewRun, owner: User, caps: dict, field: str) -> None:  # type: ignore[type-arg]
    run = new_run()
    with pytest.raises(CapsRejected) as refused:
        change_cap(run, **caps, actor=Actor.person(owner))
    assert [error.field for error in refused.value.errors] == [field]


def test_one_wrong_cap_changes_none(new_run: NewRun, owner: User) -> None:
    run = new_run()
    with pytest.raises(CapsRejected):
        change_cap(run, spend_cap_usd=Decimal("2.00"), time_cap_minutes=0, actor=Actor.person(owner))
    assert scoring.caps(fresh(run))["spend_cap_usd"] == Decimal("0.50")


def test_a_time_cap_below_what_was_played_says_the_lowest_possible(
    new_run: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = new_run()
    one_pass()
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(minutes=12, seconds=5))
    with pytest.raises(CapsRejected, match="13 is the lowest possible"):
        change_cap(run, time_cap_minutes=12, actor=Actor.person(owner))


def test_a_member_changes_the_caps_of_their_own_runs_only(new_run: NewRun, member: User, admin: User) -> None:
    own, other = new_run(actor=member), new_run()
    change_cap(own, time_cap_minutes=40, actor=Actor.person(member))
    change_cap(other, time_cap_minutes=40, actor=Actor.person(admin))
    with pytest.raises(MayNotChange):
        change_cap(other, time_cap_minutes=50, actor=Actor.person(member))


def test_a_run_that_has_ended_or_is_ending_keeps_its_caps(
    new_run: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = new_run(tasks=["task-1"])
    one_pass()
    Run.objects.filter(pk=run.pk).update(started_at=timezone.now() - timedelta(minutes=31))
    one_pass()
    with pytest.raises(NotGoing, match="is ending already"):
        change_cap(run, time_cap_minutes=60, actor=Actor.person(owner))
    worker.end(worker.offered()[0], ok=False, stopped=True)
    one_pass()
    with pytest.raises(NotGoing, match="has already ended"):
        change_cap(run, time_cap_minutes=60, actor=Actor.person(owner))
