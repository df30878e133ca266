"""A workspace with one of everything, the addresses of it all, and a signed-in client for every persona."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from console.actions.invitations import invite
from console.actions.tokens import issue_token
from console.actions.webhooks import add_webhook
from console.actor import Actor
from console.models import Delivery, Invitation, Token, User, Webhook, Workspace
from desktops.models import Computer, Hold, State, Worker
from evaluations.models import Evaluation
from runs.models import Attempt, Prefix, Run
from tests.factories import (
    AssignmentFactory,
    AttemptFactory,
    AttemptTryFactory,
    ComputerFactory,
    EvaluationFactory,
    EventFactory,
    HoldFactory,
    MembershipFactory,
    PrefixTryFactory,
    RunFactory,
    StateFactory,
    StepFactory,
    TaskSetFactory,
    TemplateVersionFactory,
    UserFactory,
    WorkerFactory,
    blob,
    recount,
)

from . import rules

OF_ATTEMPTS = ("api-attempt", "api-attempt-steps", "api-step-screenshot")
SECRET_NAME = "the workspace's own affair"


@dataclass(frozen=True)
class World:
    workspace: Workspace
    people: dict[str, User]
    run: Run
    attempt: Attempt
    computer: Computer
    prefix: Prefix
    worker: Worker
    state: State
    hold: Hold
    evaluation: Evaluation
    token: Token
    webhook: Webhook
    delivery: Delivery
    invitation: Invitation
    link: str
    sha256: str

    def client(self, persona: str) -> Client:
        client = Client()
        if persona != rules.ANONYMOUS:
            client.force_login(self.people[persona], backend="django.contrib.auth.backends.ModelBackend")
        return client

    def address(self, name: str, persona: str = rules.OWNER) -> str:
        """Of the page or API view, naming what is there."""
        (kinds,) = [pattern.converters for pattern in patterns() if pattern.name == name]
        return reverse(name, kwargs={kind: self._value(name, kind, persona) for kind in kinds})

    def _id(self, name: str) -> Any:
        if name == "api-state":
            return self.state.pk
        if name.startswith("api-computer"):
            return self.hold.pk
        if name == "api-prefix-steps":
            return self.prefix.pk
        return self.attempt.pk if name in OF_ATTEMPTS else self.run.pk

    def _name(self, name: str) -> str:
        if name.startswith("api-evaluation"):
            return self.evaluation.name
        return "basic" if name.startswith("template") else "basics"

    def _value(self, name: str, kind: str, persona: str) -> Any:
        return {
            "workspace": self.workspace.slug,
            "number": {"api-step-screenshot": 1, "webhook-again": self.delivery.pk}.get(
                name, self.run.number
            ),
            "attempt": self.attempt.number,
            "computer": self.computer.number,
            "id": self._id(name),
            "sha256": self.sha256,
            "token_key": self.token.token_key,
            # Leaving is everybody's; the rest is done to a member.
            "user_id": self.people[
                persona if name == "member-remove" and persona in self.people else "member"
            ].pk,
            "pk": self.invitation.pk,
            "secret": self.link,
            "webhook_id": self.webhook.pk,
            "worker_id": self.worker.pk,
            "state_id": self.state.pk,
            "hold_id": self.hold.pk,
            "version": 1,
            "name": self._name(name),
            "task_id": "task-1",
            "step": "execution" if name == "run-new-preview" else "workload",
            "form": "csv",
            "uidb36": "x",
            "key": "x-x",
        }[kind]


def patterns() -> Iterator[URLPattern]:
    """Every address but the administration's, which is tried as a whole."""

    def walk(resolver: URLResolver, converters: dict[str, Any]) -> Iterator[URLPattern]:
        for pattern in resolver.url_patterns:
            held = {**converters, **pattern.pattern.converters}
            if isinstance(pattern, URLPattern):
                named = dict.fromkeys(pattern.pattern.regex.groupindex)
                pattern.converters = {**held, **named}  # type: ignore[attr-defined]
                yield pattern
            elif str(pattern.pattern) != "admin/":
                yield from walk(pattern, held)

    return walk(get_resolver(), {})


def _being_played(run: Run, worker: Worker) -> Computer:
    """A desktop that lives, with an attempt on it."""
    assignment = AssignmentFactory(worker=worker, budget=run.budget)
    computer: Computer = ComputerFactory(
        assignment=assignment, template_version=run.template_version, group=run.pk
    )
    attempt = AttemptFactory(run=run, status="running")
    AttemptTryFactory(attempt=attempt, assignment=assignment, computer=computer, ok=None, ended_at=None)
    return computer


def build(workspace: Workspace, owner: User, admin: User, member: User, outsider: User) -> World:
    creator = UserFactory(email="carla@example.test", name="Carla Creator")
    MembershipFactory(workspace=workspace, user=creator)
    TaskSetFactory(workspace=workspace)
    TemplateVersionFactory(workspace=workspace)
    run = RunFactory(workspace=workspace, name=SECRET_NAME, creator=creator, status="running", planned=3)
    attempt = AttemptFactory(run=run, valid=True)
    StepFactory(attempt_try=AttemptTryFactory(attempt=attempt))
    AttemptFactory(run=run, faulty=True)
    EventFactory(run=run)
    recount(run)
    token, _ = issue_token(
        workspace=workspace,
        user=creator,
        name="creator's",
        scopes=["runs:read"],
        expires_in=timedelta(days=1),
        actor=Actor.person(creator),
    )
    webhook, _ = add_webhook(
        workspace=workspace, url="https://example.test/hook", events=["run.failed"], actor=Actor.person(owner)
    )
    delivery = Delivery.objects.create(workspace=workspace, webhook=webhook, event="run.failed", body="{}")
    invitation, link = invite(
        workspace=workspace, email="nora@example.test", role="member", actor=Actor.person(owner)
    )
    worker = WorkerFactory(workspace=workspace)
    return World(
        workspace=workspace,
        people={"owner": owner, "admin": admin, "member": member, "creator": creator, "outsider": outsider},
        run=run,
        attempt=attempt,
        computer=_being_played(run, worker),
        prefix=PrefixTryFactory(prefix__run=run, actions=[{"action": "wait"}]).prefix,
        worker=worker,
        state=StateFactory(worker=worker, origin="saved", keep_days=14),
        hold=HoldFactory(workspace=workspace, ready=True, status="starting", opened_by=creator),
        evaluation=EvaluationFactory(workspace=workspace, name="nightly", creator=creator),
        token=token,
        webhook=webhook,
        delivery=delivery,
        invitation=invitation,
        link=link,
        sha256=blob(workspace).sha256,
    )
