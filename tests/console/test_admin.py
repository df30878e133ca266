"""The administration: every page opens for staff and for nobody else; only what may change does."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse

from console.models import Budget, Membership, User, Workspace
from tests import factories

ClientFor = Callable[[User], Client]


@pytest.fixture
def staff(client_for: ClientFor, db: None) -> Client:
    person = factories.UserFactory(email="staff@example.test", is_staff=True, is_superuser=True)
    return client_for(person)


@pytest.fixture
def rows(workspace: Workspace, member: User) -> None:
    """A row or more of most models."""
    attempt_try = factories.AttemptTryFactory(attempt__run__workspace=workspace)
    factories.StepFactory(attempt_try=attempt_try)
    factories.EventFactory(run=attempt_try.attempt.run)


MODELS = [model for model in admin.site._registry if model._meta.app_label in ("console", "desktops", "runs")]


def test_every_model_is_registered() -> None:
    from django.apps import apps

    ours = {
        model
        for label in ("console", "desktops", "runs")
        for model in apps.get_app_config(label).get_models()
    }
    assert ours == set(MODELS)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.label)
def test_each_list_and_row_opens_for_staff(model: type, staff: Client, rows: None) -> None:
    meta = model._meta  # type: ignore[attr-defined]
    listing = reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")
    assert staff.get(listing).status_code == 200
    row = model.objects.first()  # type: ignore[attr-defined]
    if row is not None:
        address = reverse(f"admin:{meta.app_label}_{meta.model_name}_change", args=[row.pk])
        assert staff.get(address).status_code == 200


@pytest.mark.parametrize(
    "label",
    [
        "console.Blob",
        "console.LedgerEntry",
        "console.Token",
        "desktops.Assignment",
        "desktops.Computer",
        "runs.Attempt",
        "runs.AttemptTry",
        "runs.Event",
        "runs.Run",
        "runs.Step",
    ],
)
def test_history_is_read_only(label: str, staff: Client, rows: None) -> None:
    from django.apps import apps

    page = admin.site._registry[apps.get_model(label)]
    request = staff.get("/admin/").wsgi_request
    assert not page.has_add_permission(request)
    assert not page.has_change_permission(request)
    assert not page.has_delete_permission(request)


def test_an_owner_who_is_not_staff_stays_outside(
    owner: User, workspace: Workspace, client_for: ClientFor
) -> None:
    reply = client_for(owner).get(reverse("admin:console_workspace_changelist"))
    assert reply.status_code == 302
    assert "/admin/login/" in reply["Location"]


def test_a_workspace_that_is_added_has_an_owner_and_a_budget(staff: Client) -> None:
    form = {"slug": "new-lab", "name": "New lab", "run_parallelism": "4"}
    inline = {f"memberships-{key}_FORMS": "0" for key in ("TOTAL", "INITIAL")}
    reply = staff.post(reverse("admin:console_workspace_add"), {**form, **inline})
    assert reply.status_code == 302, reply.content
    made = Workspace.objects.get(slug="new-lab")
    assert made.run_parallelism == 4
    assert made.memberships.get().role == Membership.Role.OWNER
    assert Budget.objects.get(workspace=made, parent=None).cap is None


def test_a_cap_below_what_is_spent_is_refused_beside_its_field(staff: Client, workspace: Workspace) -> None:
    root = Budget.objects.get(workspace=workspace, parent=None)
    root.cap, root.spent = Decimal(10), Decimal(5)
    root.save()
    address = reverse("admin:console_budget_change", args=[root.pk])
    assert b"spent or reserved already" in staff.post(address, {"cap": "4"}).content
    assert staff.post(address, {"cap": "6"}).status_code == 302
    root.refresh_from_db()
    assert (root.cap, root.spent) == (Decimal(6), Decimal(5))


def test_an_account_is_made_by_e_mail(staff: Client) -> None:
    form = {"email": "new@example.test", "name": "New Person", "usable_password": "true"}
    form |= dict.fromkeys(("password1", "password2"), "a-long-enough-secret")
    form |= {f"memberships-{key}_FORMS": "0" for key in ("TOTAL", "INITIAL")}
    reply = staff.post(reverse("admin:console_user_add"), form)
    assert reply.status_code == 302, reply.content
    assert User.objects.get(email="new@example.test").check_password("a-long-enough-secret")


def test_it_wears_the_colours_and_the_name_of_the_console(staff: Client) -> None:
    page = staff.get("/admin/").content.decode()
    assert "/static/admin.css" in page
    assert "Deskyard administration</a>" in page
