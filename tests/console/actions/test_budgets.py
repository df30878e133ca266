from decimal import Decimal

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.actions.budgets import (
    BudgetExhausted,
    affordable,
    cost_of,
    open_budget,
    release,
    reserve,
    root_budget,
    seconds_for,
    settle,
)
from console.models import Budget, Workspace

D = Decimal


@pytest.fixture
def run_budget(workspace: Workspace) -> Budget:
    root = root_budget(workspace)
    root.cap = D("10")
    root.save()
    return open_budget(workspace=workspace, cap=D("1"))


def levels(budget: Budget) -> list[tuple[Decimal, Decimal]]:
    assert budget.parent is not None
    return [(row.spent, row.reserved) for row in Budget.objects.filter(pk__in=[budget.pk, budget.parent.pk])]


def test_a_reservation_is_held_at_every_level(run_budget: Budget) -> None:
    reserve(run_budget, D("0.4"))
    assert levels(run_budget) == [(D(0), D("0.4"))] * 2


def test_a_reservation_that_does_not_fit_names_the_level_and_holds_nothing(run_budget: Budget) -> None:
    with pytest.raises(BudgetExhausted) as refused:
        reserve(run_budget, D("1.01"))
    assert refused.value.budget.pk == run_budget.pk
    assert levels(run_budget) == [(D(0), D(0))] * 2


def test_the_workspace_cap_is_named_when_it_is_the_one_in_the_way(run_budget: Budget) -> None:
    Budget.objects.filter(pk=run_budget.parent_id).update(cap=D("0.2"))
    with pytest.raises(BudgetExhausted) as refused:
        reserve(run_budget, D("0.5"))
    assert refused.value.budget.parent_id is None
    left, tightest = affordable(run_budget)
    assert left == D("0.2")
    assert tightest is not None
    assert tightest.parent_id is None


def test_settling_turns_the_cost_into_spending_and_frees_the_rest(run_budget: Budget) -> None:
    reserve(run_budget, D("0.4"))
    settle(run_budget, reserved=D("0.4"), cost=D("0.1"))
    assert levels(run_budget) == [(D("0.1"), D(0))] * 2


def test_the_database_itself_refuses_to_pass_a_cap(run_budget: Budget) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Budget.objects.filter(pk=run_budget.pk).update(spent=D("1.000001"))


def test_a_workspace_has_one_budget_at_its_root(workspace: Workspace) -> None:
    assert root_budget(workspace) == root_budget(workspace)
    with pytest.raises(IntegrityError), transaction.atomic():
        Budget.objects.create(workspace=workspace)


@given(seconds=st.decimals(0, 10**6, places=3), rate=st.decimals(D("0.000001"), 100, places=6))
def test_what_is_paid_for_never_costs_more_than_it_was_paid(seconds: Decimal, rate: Decimal) -> None:
    amount = cost_of(seconds, rate)
    assert amount * 3600 >= seconds * rate
    assert D(seconds_for(amount, rate)) * rate <= amount * 3600


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(moves=st.lists(st.tuples(st.sampled_from("rsx"), st.decimals(0, 1, places=6)), max_size=15))
def test_no_sequence_of_movements_passes_the_cap(
    run_budget: Budget, moves: list[tuple[str, Decimal]]
) -> None:
    with transaction.atomic():
        held: list[Decimal] = []
        for kind, amount in moves:
            if kind == "r":
                try:
                    reserve(run_budget, amount)
                    held.append(amount)
                except BudgetExhausted:
                    continue
            elif held:
                taken = held.pop()
                if kind == "s":
                    settle(run_budget, reserved=taken, cost=min(taken, amount))
                else:
                    release(run_budget, taken)
            row = Budget.objects.get(pk=run_budget.pk)
            assert row.cap is not None
            assert row.spent + row.reserved <= row.cap
            assert row.reserved == sum(held, D(0))
        transaction.set_rollback(True)
