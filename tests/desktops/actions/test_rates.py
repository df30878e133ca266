"""Rates per template version and per template on a worker; what is open keeps the rate it began with."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse

from console.actions.workspaces import NotAllowed
from console.actor import Actor
from console.models import AuditEntry, LedgerEntry, User, Workspace
from desktops.actions.rates import RateRejected, rates_for, set_rate, set_worker_rate
from desktops.models import TemplateVersion, Worker, WorkerRate
from runs.supervisor import one_pass
from tests.factories import TemplateFactory, TemplateVersionFactory, UserFactory, WorkerFactory
from tests.runs.actions.conftest import new_run, worker
from tests.runs.paper_worker import PaperWorker

__all__ = ["new_run", "worker"]  # fixtures

OPERATOR = Actor.system("the operator")


@pytest.fixture
def version(workspace: Workspace) -> TemplateVersion:
    return TemplateVersionFactory(workspace=workspace)


def test_a_workers_own_rate_stands_in_place_of_the_versions(version: TemplateVersion) -> None:
    dear, plain = WorkerFactory.create_batch(2, workspace=version.template.workspace)
    set_worker_rate(template=version.template, worker=dear, rate=Decimal("0.36"), actor=OPERATOR)
    assert rates_for(version, [dear, plain]) == {dear.pk: Decimal("0.36"), plain.pk: Decimal("0.06")}
    set_worker_rate(template=version.template, worker=dear, rate=None, actor=OPERATOR)
    assert rates_for(version, [dear]) == {dear.pk: Decimal("0.06")}


def test_each_change_is_recorded_once(version: TemplateVersion) -> None:
    host = WorkerFactory(workspace=version.template.workspace, name="big")
    for rate in ("0.36", "0.36", "0.40"):
        set_worker_rate(template=version.template, worker=host, rate=Decimal(rate), actor=OPERATOR)
    set_rate(version, rate=Decimal("0.07"), actor=OPERATOR)
    entries = AuditEntry.objects.filter(action="template.rate_changed").order_by("pk")
    assert [(entry.subject, entry.detail) for entry in entries] == [
        ("template basic on big", {"was": None, "rate_usd_per_hour": "0.360000"}),
        ("template basic on big", {"was": "0.360000", "rate_usd_per_hour": "0.400000"}),
        ("template basic@1", {"was": "0.060000", "rate_usd_per_hour": "0.070000"}),
    ]


@pytest.mark.parametrize("rate", ["0", "-1", "NaN", "0.00001"])
def test_a_rate_that_would_escape_every_cap_is_refused(version: TemplateVersion, rate: str) -> None:
    host = WorkerFactory(workspace=version.template.workspace)
    with pytest.raises(RateRejected):
        set_rate(version, rate=Decimal(rate), actor=OPERATOR)
    with pytest.raises(RateRejected):
        set_worker_rate(template=version.template, worker=host, rate=Decimal(rate), actor=OPERATOR)


def test_nobody_of_the_workspace_sets_rates(version: TemplateVersion, owner: User) -> None:
    with pytest.raises(NotAllowed):
        set_rate(version, rate=Decimal("0.01"), actor=Actor.person(owner))


def test_a_worker_of_another_workspace_is_refused(
    version: TemplateVersion, other_workspace: Workspace
) -> None:
    with pytest.raises(RateRejected):
        set_worker_rate(
            template=version.template,
            worker=WorkerFactory(workspace=other_workspace),
            rate=Decimal(1),
            actor=OPERATOR,
        )


def test_the_ledger_has_the_rate_of_the_offer_whatever_is_set_later(
    new_run: Callable,  # type: ignore[type-arg]
    worker: PaperWorker,
) -> None:
    run = new_run(tasks=["task-1"])
    template = run.template_version.template
    set_worker_rate(template=template, worker=worker.worker, rate=Decimal("3.60"), actor=OPERATOR)
    one_pass()
    [assignment] = worker.offered()
    set_worker_rate(template=template, worker=worker.worker, rate=Decimal("36"), actor=OPERATOR)
    set_rate(run.template_version, rate=Decimal("72"), actor=OPERATOR)
    computer = worker.start(assignment, seconds_ago=10)
    worker.verdict(assignment, 1.0)
    worker.stop(assignment, computer)
    worker.end(assignment)
    entry = LedgerEntry.objects.get(subject=computer)
    assert entry.rate_usd_per_hour == Decimal("3.60")
    assert Decimal("0.010") <= entry.cost < Decimal("0.012")


class TestInTheAdmin:
    @pytest.fixture
    def staff(self, client_for: Callable[[User], Client], db: None) -> Client:
        return client_for(UserFactory(is_staff=True, is_superuser=True, email="root@example.test"))

    @pytest.fixture
    def host(self, workspace: Workspace) -> Worker:
        return WorkerFactory(workspace=workspace, name="big")

    def test_a_rate_is_set_changed_and_taken_away(
        self, staff: Client, version: TemplateVersion, host: Worker
    ) -> None:
        add = reverse("admin:desktops_workerrate_add")
        body = {"template": version.template_id, "worker": host.pk, "rate_usd_per_hour": "0.5"}
        assert staff.post(add, body).status_code == 302
        row = WorkerRate.objects.get()
        change = reverse("admin:desktops_workerrate_change", args=[row.pk])
        assert staff.post(change, {"rate_usd_per_hour": "0.7"}).status_code == 302
        assert rates_for(version, [host])[host.pk] == Decimal("0.7")
        delete = reverse("admin:desktops_workerrate_delete", args=[row.pk])
        assert staff.post(delete, {"post": "yes"}).status_code == 302
        assert not WorkerRate.objects.exists()
        entries = AuditEntry.objects.filter(action="template.rate_changed")
        assert [entry.actor_kind for entry in entries] == ["operator"] * 3

    def test_a_rate_across_workspaces_or_of_nothing_is_refused(
        self, staff: Client, version: TemplateVersion, host: Worker, other_workspace: Workspace
    ) -> None:
        add = reverse("admin:desktops_workerrate_add")
        foreign = TemplateFactory(workspace=other_workspace)
        for template, rate in ((foreign.pk, "1"), (version.template_id, "0")):
            reply = staff.post(add, {"template": template, "worker": host.pk, "rate_usd_per_hour": rate})
            assert reply.status_code == 200
        assert not WorkerRate.objects.exists()


def test_the_pages_show_a_workers_own_rate(
    version: TemplateVersion, workspace: Workspace, member: User, client_for: Callable[[User], Client]
) -> None:
    host = WorkerFactory(workspace=workspace)
    set_worker_rate(template=version.template, worker=host, rate=Decimal("0.37"), actor=OPERATOR)
    client = client_for(member)
    for page in ("workers/", f"workers/{host.pk}/", "templates/", "templates/basic/"):
        assert "$0.37" in client.get(f"/w/lab/{page}").content.decode(), page
