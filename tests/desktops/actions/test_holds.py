"""Computers that somebody opens: started, paid ahead, closed at their limits, and never left behind."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from console.actions.budgets import root_budget, set_cap
from console.actions.workspaces import NotAllowed
from console.actor import Actor
from console.models import AuditEntry, Budget, LedgerEntry, User, Workspace
from desktops.actions import states
from desktops.actions.asks import save_computer
from desktops.actions.holds import close_computer, used
from desktops.actions.views import let_watch, open_view
from desktops.models import Assignment, Computer, Hold, State, Worker
from desktops.protocol.messages import LEASE_SECONDS
from runs.supervisor import one_pass
from tests.desktops.hands import age, assignment_of, end, opened, start
from tests.factories import StateFactory, WorkerFactory
from tests.runs.paper_worker import PaperWorker

pytestmark = pytest.mark.django_db


@pytest.fixture
def paper(workspace: Workspace, owner: User) -> PaperWorker:
    return PaperWorker(workspace, owner)


def gist(hold: Hold) -> tuple[str, str]:
    hold.refresh_from_db()
    return hold.status, hold.stop_reason


def test_it_waits_starts_and_is_ready(workspace: Workspace, member: User, paper: PaperWorker) -> None:
    hold = opened(workspace, member)
    assert gist(hold) == ("waiting", "")
    one_pass()
    assert gist(hold) == ("starting", "")
    order = assignment_of(hold).payload
    assert (order["hold_id"], order["template"]["name"], order["state"]) == (str(hold.pk), "basic", "")
    start(paper, hold)
    assert gist(hold) == ("ready", "")
    assert hold.computer is not None
    assert (hold.computer.label, hold.computer.purpose) == ("c-0001", "computer")
    assert str(hold) == "c-0001"
    assert hold.closes_at == hold.started_at + timedelta(minutes=60)
    assert hold.idle_at == hold.last_used_at + timedelta(minutes=15)


def test_a_quiet_workers_desktop_is_left_to_it_though_another_is_free(
    workspace: Workspace, owner: User, member: User, paper: PaperWorker
) -> None:
    hold = opened(workspace, member)
    start(paper, hold)
    PaperWorker(workspace, owner, name="other")
    past = timezone.now() - timedelta(seconds=1)
    Worker.objects.filter(pk=paper.worker.pk).update(
        connected=False, last_seen_at=past - timedelta(seconds=LEASE_SECONDS)
    )
    Assignment.objects.filter(worker=paper.worker).update(lease_until=past)
    one_pass()
    assert gist(hold) == ("ready", "")
    assert assignment_of(hold).status == Assignment.Status.HELD


def test_it_costs_the_seconds_that_its_desktop_existed(
    workspace: Workspace, member: User, paper: PaperWorker
) -> None:
    hold = opened(workspace, member)
    computer = start(paper, hold)
    close_computer(hold, actor=Actor.person(member))
    assert gist(hold) == ("closing", "closed_by_user")
    assert assignment_of(hold).status == Assignment.Status.STOPPING
    end(paper, hold, computer, detail="stopped by the console: closed_by_user")
    assert gist(hold) == ("closed", "closed_by_user")
    assert hold.detail == "Closed by Mia Member."  # who, not how its worker said it
    entry = LedgerEntry.objects.get(subject=computer)
    row = Computer.objects.get(pk=computer)
    assert entry.seconds == Decimal((row.stopped_at - row.started_at).total_seconds()).quantize(
        Decimal("0.001"), rounding="ROUND_UP"
    )
    for budget in (Budget.objects.get(pk=hold.budget_id), root_budget(workspace)):
        assert (budget.spent, budget.reserved) == (entry.cost, Decimal(0))
    actions = AuditEntry.objects.filter(action__startswith="computer.").order_by("pk")
    assert list(actions.values_list("action", "actor_label")) == [
        ("computer.opened", str(member)),
        ("computer.closed", str(member)),
    ]


def test_one_that_waits_is_closed_at_once_and_costs_nothing(workspace: Workspace, member: User) -> None:
    hold = opened(workspace, member)
    for _ in range(2):  # closing twice changes nothing
        close_computer(hold, actor=Actor.person(member))
    assert gist(hold) == ("closed", "closed_by_user")
    assert not LedgerEntry.objects.exists()
    assert AuditEntry.objects.filter(action="computer.closed").count() == 1


def test_only_who_opened_it_and_managers_may_close_it(
    workspace: Workspace, owner: User, admin: User, member: User, outsider: User
) -> None:
    hold = opened(workspace, owner)
    for stranger in (member, outsider):
        with pytest.raises(NotAllowed, match="Only who opened this computer"):
            close_computer(hold, actor=Actor.person(stranger))
    assert close_computer(hold, actor=Actor.person(admin)).status == "closed"


@pytest.mark.parametrize(
    ("times", "reason"),
    [({"last_used_at": 16}, "idle"), ({"started_at": 61}, "time_limit")],
)
def test_it_closes_by_itself_at_its_limits(
    workspace: Workspace, member: User, paper: PaperWorker, times: dict[str, int], reason: str
) -> None:
    hold = opened(workspace, member)
    computer = start(paper, hold)
    age(hold, **times)
    one_pass()
    assert gist(hold) == ("closing", reason)
    one_pass()
    end(paper, hold, computer)
    assert gist(hold) == ("closed", reason)
    assert AuditEntry.objects.get(action="computer.closed").actor_label == "the supervisor"


def test_what_is_used_or_being_saved_is_not_idle(
    workspace: Workspace, member: User, paper: PaperWorker
) -> None:
    mine, saved = opened(workspace, member), opened(workspace, member)
    for hold in (mine, saved):
        start(paper, hold)
    save_computer(saved, label="", keep_days=14, actor=Actor.person(member))
    for hold in (mine, saved):
        age(hold, last_used_at=16)
    used(mine)
    one_pass()
    assert [gist(hold)[0] for hold in (mine, saved)] == ["ready", "ready"]


def test_what_somebody_drives_is_not_idle_and_what_is_only_watched_is(
    workspace: Workspace, member: User, paper: PaperWorker
) -> None:
    driven, watched = opened(workspace, member), opened(workspace, member)
    for hold, drives in ((driven, True), (watched, False)):
        start(paper, hold)
        open_view(let_watch(hold.computer, drives=drives, actor=Actor.person(member)), member)
        age(hold, last_used_at=16)
    one_pass()
    assert [gist(hold)[0] for hold in (driven, watched)] == ["ready", "closing"]


def test_it_is_paid_ahead_only_as_far_as_its_cap(
    workspace: Workspace, member: User, paper: PaperWorker
) -> None:
    hold = opened(workspace, member, spend_cap=Decimal("0.01"))
    computer = start(paper, hold)
    for _ in range(20):
        Assignment.objects.update(paid_until=timezone.now() + timedelta(seconds=5))
        one_pass()
    budget = Budget.objects.get(pk=hold.budget_id)
    assert budget.spent + budget.reserved <= Decimal("0.01")
    assert gist(hold) == ("ready", "")
    end(paper, hold, computer, ["paid_until_reached"])
    assert gist(hold) == ("closed", "budget_exceeded")
    assert "is too little for a desktop" in hold.detail


def test_one_that_nobody_paid_ahead_says_so(workspace: Workspace, member: User, paper: PaperWorker) -> None:
    hold = opened(workspace, member)
    computer = start(paper, hold)
    end(paper, hold, computer, ["paid_until_reached"])
    assert gist(hold) == ("failed", "console_away")


def test_the_workspaces_budget_is_named_where_it_is_that(
    workspace: Workspace, member: User, paper: PaperWorker
) -> None:
    set_cap(root_budget(workspace), Decimal("0.0001"))
    hold = opened(workspace, member)
    one_pass()
    assert gist(hold) == ("closed", "workspace_budget_exceeded")
    assert not Assignment.objects.exists()


def test_a_lost_worker_fails_it_and_its_desktop_costs_until_it_ended_itself(
    workspace: Workspace, member: User, paper: PaperWorker
) -> None:
    hold = opened(workspace, member)
    start(paper, hold)
    past = timezone.now() - timedelta(seconds=20)
    Assignment.objects.update(lease_until=past, paid_until=past, told_until=past)
    Worker.objects.update(last_seen_at=past, connected=False)
    Computer.objects.update(started_at=past - timedelta(seconds=10))
    one_pass()
    assert gist(hold) == ("failed", "worker_lost")
    assert "went quiet" in hold.detail
    one_pass()
    assert not Computer.objects.held().exists()
    budget = Budget.objects.get(pk=hold.budget_id)
    assert (budget.spent > 0, budget.reserved) == (True, 0)


def test_a_worker_lost_while_it_was_closing_changes_no_reason(
    workspace: Workspace, member: User, paper: PaperWorker
) -> None:
    hold = opened(workspace, member)
    start(paper, hold)
    close_computer(hold, actor=Actor.person(member))
    Assignment.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    one_pass()
    assert gist(hold) == ("closed", "closed_by_user")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("desktop_start_failed", "start_failed"),
        ("desktop_lost", "desktop_lost"),
        ("worker_stopped", "worker_lost"),
        ("upload_failed", "worker_fault"),
        (None, "worker_fault"),
    ],
)
def test_what_broke_is_said(
    workspace: Workspace, member: User, paper: PaperWorker, said: str | None, reason: str
) -> None:
    hold = opened(workspace, member)
    computer = start(paper, hold)
    end(paper, hold, computer, [said] if said else [], "It is broken.")
    assert gist(hold) == ("failed", reason)
    assert hold.detail == "It is broken."


def test_nobody_to_start_it_is_said_after_a_while_and_a_busy_worker_is_waited_for(
    workspace: Workspace, member: User, owner: User
) -> None:
    lonely = opened(workspace, member)
    age(lonely, created_at=5)
    one_pass()
    assert gist(lonely) == ("failed", "no_worker")
    PaperWorker(workspace, owner, slots=1)
    first, second = opened(workspace, member), opened(workspace, member)
    age(second, created_at=4)
    age(first, created_at=5)
    one_pass()
    assert [gist(hold)[0] for hold in (first, second)] == ["starting", "waiting"]


def test_a_paused_worker_and_a_strangers_start_nothing(
    workspace: Workspace, other_workspace: Workspace, member: User
) -> None:
    WorkerFactory(workspace=workspace, paused=True)
    WorkerFactory(workspace=other_workspace)
    hold = opened(workspace, member)
    one_pass()
    assert gist(hold) == ("waiting", "")


def test_from_a_saved_desktop_it_starts_on_the_worker_that_has_it(
    workspace: Workspace, member: User, owner: User, paper: PaperWorker
) -> None:
    other = PaperWorker(workspace, owner, name="other", slots=8)
    version = opened(workspace, member).template_version
    state = StateFactory(worker=paper.worker, origin="saved", template_version=version)
    Hold.objects.all().delete()
    hold = opened(workspace, member, template_version=version, state=state)
    assert states.needed([state]) == {state.pk: "a computer that waits to start from it"}
    start(paper, hold)
    assert assignment_of(hold).payload["state"] == state.name
    assert other.offered() == []
    assert state.pk in states.needed([state])
    state.refresh_from_db()
    assert state.uses == 1


def test_a_saved_desktop_that_went_meanwhile_fails_it(
    workspace: Workspace, member: User, paper: PaperWorker
) -> None:
    state = StateFactory(worker=paper.worker, origin="saved", label="Half done")
    hold = opened(workspace, member, state=state)
    State.objects.update(status="gone")
    one_pass()
    assert gist(hold) == ("failed", "start_failed")
    assert hold.detail == "Half done has been deleted."


@pytest.mark.parametrize("change", [{"status": "ready"}, {"stop_reason": "idle"}, {"ended_at": None}])
def test_what_has_ended_cannot_change(workspace: Workspace, member: User, change: dict[str, Any]) -> None:
    hold = opened(workspace, member)
    close_computer(hold, actor=Actor.person(member))
    with pytest.raises(IntegrityError), transaction.atomic():
        Hold.objects.filter(pk=hold.pk).update(**change)


def test_a_word_that_comes_too_late_is_refused_and_the_money_still_follows(
    workspace: Workspace, member: User, paper: PaperWorker
) -> None:
    hold = opened(workspace, member)
    computer = start(paper, hold)
    Assignment.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    Worker.objects.update(last_seen_at=timezone.now())
    one_pass()
    assert gist(hold)[0] == "failed"
    assignment = assignment_of(hold)
    late = paper.say(assignment, {"kind": "computer_stopped", "computer": computer, "reason": "late"})
    assert late.refused == []
    assert [
        problem.code for problem in paper.say(assignment, {"kind": "hold_ended", "ok": False}).refused
    ] == ["stale_epoch"]
    assert not Computer.objects.held().exists()
