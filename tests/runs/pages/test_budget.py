from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.utils import timezone

from console.actions.budgets import root_budget
from console.models import AuditEntry, LedgerEntry
from console.spending import ON_ITS_WAY_SECONDS, SoFar, so_far
from runs.pages.budget import by_day, grid_step
from tests.factories import RunFactory

from .stage import a_run

pytestmark = pytest.mark.django_db
PAGE = "/w/lab/budget/"


def running(run, seconds: float, reserved: str) -> None:
    """A desktop that is up since then, with so much reserved for it."""
    LedgerEntry.objects.create(
        workspace=run.workspace,
        budget=run.budget,
        subject=uuid4(),
        rate_usd_per_hour=Decimal("0.36"),
        opened_at=timezone.now() - timedelta(seconds=seconds),
    )
    for budget in (run.budget, root_budget(run.workspace)):
        budget.reserved += Decimal(reserved)
        budget.save()


def spend(run, amount: str, days_ago: int = 0) -> None:
    at = timezone.now() - timedelta(days=days_ago)
    LedgerEntry.objects.create(
        workspace=run.workspace,
        budget=run.budget,
        subject=uuid4(),
        rate_usd_per_hour=Decimal("0.06"),
        opened_at=at,
        settled_at=at,
        seconds=Decimal(10),
        cost=Decimal(amount),
    )
    for budget in (run.budget, root_budget(run.workspace)):
        budget.spent += Decimal(amount)
        budget.save()


def fresh(run):
    run.budget.refresh_from_db()
    return run.budget


def test_an_owner_sets_changes_and_removes_the_cap(workspace, owner, client_for):
    client = client_for(owner)
    client.post(PAGE + "cap/", {"cap": "$1,025.50"})
    assert root_budget(workspace).cap == Decimal("1025.50")
    assert "$1,025.50" in client.get(PAGE).content.decode()
    client.post(PAGE + "cap/", {"cap": "1025.50", "do": "remove"})
    assert root_budget(workspace).cap is None
    entries = list(AuditEntry.objects.filter(action="budget.cap_changed").order_by("pk"))
    assert [entry.detail for entry in entries] == [
        {"cap_usd": "1025.50", "was_usd": None},
        {"cap_usd": None, "was_usd": "1025.50"},
    ]


@pytest.mark.parametrize("typed", ["", "x", "-1", "0.001", "NaN", "1e99", "99999999999"])
def test_what_cannot_be_a_cap_is_said_beside_the_field(typed, workspace, admin, client_for):
    reply = client_for(admin).post(PAGE + "cap/", {"cap": typed})
    assert reply.status_code == 422
    text = reply.content.decode()
    assert 'id="e-cap"' in text
    assert "The cap was not changed." in text
    assert 'aria-invalid="true" autofocus' in text
    assert root_budget(workspace).cap is None


def test_a_cap_below_what_is_spent_says_the_lowest_possible(workspace, owner, client_for):
    spend(a_run(workspace), "0.123")
    reply = client_for(owner).post(PAGE + "cap/", {"cap": "0.12"})
    assert "$0.1230 is spent or reserved already, so $0.13 is the lowest possible" in reply.content.decode()


def test_a_member_sees_the_figures_and_no_form(workspace, member, client_for):
    spend(a_run(workspace), "0.25")
    client = client_for(member)
    text = client.get(PAGE).content.decode()
    assert "$0.2500" in text
    assert 'name="cap"' not in text
    assert client.post(PAGE + "cap/", {"cap": "5"}).status_code == 403
    assert client.get(PAGE + "cap/").status_code == 405


def test_runs_come_in_pages_and_cost_the_same_queries(
    workspace, owner, client_for, django_assert_max_num_queries
):
    RunFactory.create_batch(30, workspace=workspace)
    client = client_for(owner)
    with django_assert_max_num_queries(16):
        text = client.get(PAGE).content.decode()
    assert "?before=6" in text
    older = client.get(PAGE + "?before=6").content.decode()
    assert "/w/lab/runs/5/" in older
    assert "/w/lab/runs/6/" not in older


def test_days_without_spending_are_there_too(workspace, owner, client_for):
    run = a_run(workspace, spend_cap=Decimal(100))
    spend(run, "0.10")
    spend(run, "0.20")
    spend(run, "0.40", days_ago=3)
    spend(run, "9.00", days_ago=40)
    days = by_day(workspace, datetime.now(UTC).date(), running=Decimal(0))
    assert [str(cost) for _, cost in days[-4:]] == ["0.400000", "0", "0", "0.300000"]
    assert len(days) == 30
    assert "$0.7000 in the last 30 days" in client_for(owner).get(PAGE).content.decode()


def test_today_counts_desktops_that_run_as_what_is_spent_does(workspace, owner, client_for):
    run = a_run(workspace)
    spend(run, "0.10")
    running(run, seconds=10_000, reserved="0.30")  # never more than what is reserved
    client = client_for(owner)
    assert "$0.4000 in the last 30 days" in client.get(PAGE).content.decode()
    assert "$0.4000 today" in client.get("/w/lab/").content.decode()


def test_an_outsider_finds_no_budget(workspace, outsider, client_for):
    assert client_for(outsider).get(PAGE).status_code == 404


def test_the_api_tells_the_budget_and_changes_nothing(workspace, api):
    run = a_run(workspace)
    spend(run, "0.25")
    assert api("runs:read").get("/v1/budget").json() == {
        "cap_usd": None,
        "spent_usd": "0.25",
        "reserved_usd": "0.00",
        "left_usd": None,
    }
    root = root_budget(workspace)
    root.cap = Decimal(2)
    root.save()
    assert api("runs:read").get("/v1/budget").json()["left_usd"] == "1.75"
    assert api().patch("/v1/budget", {"cap_usd": "5"}).status_code == 405


def test_what_is_reserved_is_not_said_to_be_spent(workspace, owner, client_for):
    root = root_budget(workspace)
    root.spent, root.reserved = Decimal("1.25"), Decimal("0.50")
    root.save()
    text = client_for(owner).get("/w/lab/budget/").content.decode()
    assert "For everything ever spent here: $1.2500 so far, and $0.5000 reserved" in text


def test_desktops_that_run_count_by_their_seconds_and_rate_until_they_are_settled(workspace):
    one, other = a_run(workspace), a_run(workspace)
    spend(one, "0.0100")
    running(one, 35, reserved="0.0200")
    running(other, 10, reserved="0.0060")
    opened_at = LedgerEntry.objects.filter(budget=one.budget, settled_at=None).get().opened_at
    now = opened_at + timedelta(seconds=35 + ON_ITS_WAY_SECONDS)
    root = root_budget(workspace)
    found = so_far(workspace, [fresh(one), fresh(other), root], now)
    assert found[one.budget_id] == SoFar(Decimal("0.0135"), Decimal("0.0165"))
    assert found[root.pk].spent == Decimal("0.0135") + found[other.budget_id].spent
    assert found[root.pk].spent + found[root.pk].ahead == root.spent + root.reserved


def test_a_desktop_nobody_hears_of_never_counts_for_more_than_is_reserved(workspace):
    run = a_run(workspace)
    running(run, 100_000, reserved="0.0060")
    found = so_far(workspace, [fresh(run)], timezone.now())[run.budget_id]
    assert found == SoFar(Decimal("0.006"), Decimal(0))


def test_what_the_runs_cost_adds_up_on_the_page(workspace, owner, client_for):
    for cost in ("0.010000", "0.001700", "0.009600"):
        spend(a_run(workspace), cost)
    text = client_for(owner).get(PAGE).content.decode()
    for amount in ("$0.0100", "$0.0017", "$0.0096", "$0.0213 in the last"):
        assert amount in text


@pytest.mark.parametrize(
    ("most", "step"),
    [
        ("0", "1"),
        ("0.002", "0.0005"),
        ("0.0021", "0.001"),
        ("4", "1"),
        ("4.01", "2"),
        ("9", "2.5"),
        ("399", "100"),
    ],
)
def test_the_costliest_day_stays_under_a_round_top_line(most, step):
    assert grid_step(Decimal(most)) == Decimal(step)
