"""Rows in any state, made straight in the database: for tests of what reads them. Changes have their verbs.

RunFactory(workspace=…) makes a queued run with no attempts. AttemptFactory(run=…, valid=True, reward=1.0)
makes an attempt that ended with a verdict; `recount(run)` then brings the run's counters in line.
"""

from __future__ import annotations

import hashlib
import io
import uuid
from datetime import timedelta
from decimal import Decimal
from typing import Any

import factory
from django.utils import timezone
from factory import fuzzy
from factory.django import DjangoModelFactory
from PIL import Image

from console.actions.blobs import store_blob
from console.actions.budgets import open_budget
from console.models import Blob, Membership, User, Workspace
from desktops.models import Assignment, Computer, Hold, State, Template, TemplateVersion, Worker
from evaluations.models import Evaluation
from runs.models import Attempt, AttemptTry, Event, Prefix, PrefixTry, Run, Step, Task, TaskSet

PASSWORD = "correct horse battery"  # everybody's, in tests


def _grey_png() -> bytes:
    """A small grey picture, as a screenshot."""
    file = io.BytesIO()
    Image.new("L", (16, 9), 128).save(file, "PNG")
    return file.getvalue()


PNG = _grey_png()


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class UserFactory(DjangoModelFactory[User]):
    class Meta:
        model = User
        skip_postgeneration_save = True

    email = factory.Sequence(lambda n: f"person{n}@example.test")
    name = factory.Faker("name")
    password = factory.django.Password(PASSWORD)


class WorkspaceFactory(DjangoModelFactory[Workspace]):
    class Meta:
        model = Workspace

    slug = factory.Sequence(lambda n: f"space-{n}")
    name = factory.LazyAttribute(lambda o: o.slug.title())


class MembershipFactory(DjangoModelFactory[Membership]):
    class Meta:
        model = Membership

    workspace = factory.SubFactory(WorkspaceFactory)
    user = factory.SubFactory(UserFactory)
    role = Membership.Role.MEMBER


class TemplateFactory(DjangoModelFactory[Template]):
    class Meta:
        model = Template
        django_get_or_create = ("workspace", "name")

    workspace = factory.SubFactory(WorkspaceFactory)
    name = "basic"
    title = "Basic desktop"
    apps = ["os", "terminal", "files", "editor"]


class TemplateVersionFactory(DjangoModelFactory[TemplateVersion]):
    """Published, unless `draft=True`; `TemplateVersionFactory(workspace=…)` says whose."""

    class Meta:
        model = TemplateVersion
        django_get_or_create = ("template", "version")

    class Params:
        draft = False
        workspace = factory.SubFactory(WorkspaceFactory)
        name = "basic"

    template = factory.SubFactory(
        TemplateFactory,
        workspace=factory.SelfAttribute("..workspace"),
        name=factory.SelfAttribute("..name"),
    )
    version = 1
    status = factory.LazyAttribute(
        lambda o: TemplateVersion.Status.DRAFT if o.draft else TemplateVersion.Status.PUBLISHED
    )
    digest = factory.LazyAttribute(lambda o: "" if o.draft else f"sha256:{sha256(f'{o.name}@{o.version}')}")
    published_at = factory.LazyAttribute(lambda o: None if o.draft else timezone.now())


class TaskSetFactory(DjangoModelFactory[TaskSet]):
    """With `tasks` tasks named task-1, task-2, …; pass tasks=0 for none."""

    class Meta:
        model = TaskSet
        django_get_or_create = ("workspace", "name", "version")
        skip_postgeneration_save = True

    workspace = factory.SubFactory(WorkspaceFactory)
    name = "basics"
    title = factory.LazyAttribute(lambda o: o.name.title())
    version = 1
    digest = factory.LazyAttribute(lambda o: f"sha256:{sha256(f'{o.name}@{o.version}')}")

    @factory.post_generation
    def tasks(obj: TaskSet, create: bool, extracted: int | None, **kwargs: Any) -> None:  # type: ignore[misc]
        if create and not obj.tasks.exists():
            for place in range(1, (2 if extracted is None else extracted) + 1):
                TaskFactory(task_set=obj, position=place, **kwargs)


class TaskFactory(DjangoModelFactory[Task]):
    """With a recipe; pass recipe=None for a task that has none."""

    class Meta:
        model = Task

    task_set = factory.SubFactory(TaskSetFactory, tasks=0)
    position = factory.Sequence(lambda n: n + 1)
    task_id = factory.LazyAttribute(lambda o: f"task-{o.position}")
    title = factory.LazyAttribute(lambda o: f"Task {o.position}")
    instruction = factory.LazyAttribute(lambda o: f"Do what task {o.position} says.")
    related_apps = ["os"]
    templates = ["basic", "office"]
    document = factory.LazyAttribute(lambda o: {"id": o.task_id, "instruction": o.instruction})
    digest = factory.LazyAttribute(lambda o: f"sha256:{sha256(o.task_id)}")
    recipe = factory.LazyFunction(lambda: [{"action": "click", "x": 10, "y": 20}])
    recipe_digest = factory.LazyAttribute(
        lambda o: "" if o.recipe is None else f"sha256:{sha256(str(o.recipe))}"
    )


class WorkerFactory(DjangoModelFactory[Worker]):
    """Connected just now."""

    class Meta:
        model = Worker

    workspace = factory.SubFactory(WorkspaceFactory)
    name = factory.Sequence(lambda n: f"worker-{n}")
    engine = "podman"
    engine_version = "4.3.1"
    isolation = "containers"
    version = "0.1.0"
    slots = 2
    cpus = 2
    memory_mb = 8192
    connected = True
    last_seen_at = factory.LazyFunction(timezone.now)
    images = factory.LazyFunction(
        lambda: [{"name": "basic", "version": 1, "digest": f"sha256:{sha256('basic@1')}"}]
    )


class RunFactory(DjangoModelFactory[Run]):
    """A stored run. `status` beyond queued also sets started_at, ended_at and a stop reason that fits."""

    class Meta:
        model = Run

    class Params:
        spend_cap = Decimal("0.50")

    workspace = factory.SubFactory(WorkspaceFactory)
    name = "nightly smoke"
    kind = Run.Kind.SCRIPTED_TEST
    status = Run.Status.QUEUED
    task_set = factory.SubFactory(TaskSetFactory, workspace=factory.SelfAttribute("..workspace"))
    template_version = factory.SubFactory(
        TemplateVersionFactory, workspace=factory.SelfAttribute("..workspace")
    )
    planned = factory.LazyAttribute(lambda o: o.task_set.tasks.count() or 1)
    task_ids = factory.LazyAttribute(lambda o: list(o.task_set.tasks.values_list("pk", flat=True)))
    budget = factory.LazyAttribute(lambda o: open_budget(workspace=o.workspace, cap=o.spend_cap))
    creator = None
    created_via = "page"
    started_at = factory.LazyAttribute(
        lambda o: None if o.status in ("queued", "preparing") else timezone.now() - timedelta(minutes=5)
    )
    ended_at = factory.LazyAttribute(lambda o: timezone.now() if o.status in Run.TERMINAL else None)
    stop_reason = factory.LazyAttribute(
        lambda o: {
            "completed": Run.StopReason.ALL_TASKS_DONE,
            "failed": Run.StopReason.WORKER_LOST,
            "cancelled": Run.StopReason.CANCELLED_BY_USER,
        }.get(o.status, "")
    )

    @factory.lazy_attribute
    def number(self) -> int:
        self.workspace.last_run_number += 1
        self.workspace.save(update_fields=["last_run_number"])
        return int(self.workspace.last_run_number)

    @factory.lazy_attribute
    def spec(self) -> dict[str, Any]:
        tasks = list(self.task_set.tasks.values_list("task_id", flat=True))
        return {**document(self.task_set.name, tasks, str(self.template_version)), "name": self.name}


def document(task_set: str, tasks: list[str], template: str = "basic@1", **changes: Any) -> dict[str, Any]:
    """A whole run document; `changes` replace its fields."""
    return {
        "kind": "scripted_test",
        "name": "nightly smoke",
        "task_set": task_set,
        "tasks": tasks,
        "template": template,
        "parallel_copies": 1,
        "fork_copies": 1,
        "prefix_steps": 0,
        "max_steps": 15,
        "rounds": 1,
        "spend_cap_usd": "0.50",
        "time_cap_minutes": 30,
        "stop_after_valid": None,
        "model": None,
        **changes,
    }


class AttemptFactory(DjangoModelFactory[Attempt]):
    """Queued; `valid=True, reward=…`: ended with a verdict; `faulty=True`: by an infrastructure fault."""

    class Meta:
        model = Attempt

    class Params:
        valid = factory.Trait(
            status=Attempt.Status.DONE,
            verifier=Attempt.Verifier.VALID,
            reward=1.0,
            steps=1,
            tries=1,
            started_at=factory.LazyFunction(lambda: timezone.now() - timedelta(seconds=3)),
            ended_at=factory.LazyFunction(timezone.now),
        )
        faulty = factory.Trait(
            status=Attempt.Status.ERROR,
            verifier=Attempt.Verifier.INVALID,
            invalid_reasons=["desktop_lost"],
            tries=3,
            started_at=factory.LazyFunction(lambda: timezone.now() - timedelta(seconds=3)),
            ended_at=factory.LazyFunction(timezone.now),
        )

    run = factory.SubFactory(RunFactory)
    workspace = factory.SelfAttribute("run.workspace")
    number = factory.LazyAttribute(lambda o: o.run.attempts.count() + 1)
    task = factory.LazyAttribute(lambda o: o.run.task_set.tasks.all()[0])
    round = 1
    copy = 1
    fork = 1


class AssignmentFactory(DjangoModelFactory[Assignment]):
    class Meta:
        model = Assignment

    workspace = factory.SelfAttribute("worker.workspace")
    worker = factory.SubFactory(WorkerFactory)
    budget = factory.LazyAttribute(lambda o: open_budget(workspace=o.workspace, cap=Decimal("0.50")))
    kind = "attempt"
    subject = factory.LazyFunction(uuid.uuid4)
    payload = factory.LazyFunction(dict)
    status = Assignment.Status.ENDED
    lease_until = factory.LazyFunction(lambda: timezone.now() + timedelta(seconds=15))
    paid_until = factory.LazyFunction(lambda: timezone.now() + timedelta(seconds=60))
    rate_usd_per_hour = Decimal("0.06")
    ended_at = factory.LazyAttribute(lambda o: timezone.now() if o.status in ("ended", "lost") else None)


class ComputerFactory(DjangoModelFactory[Computer]):
    """Running; pass stopped_at for one that is gone."""

    class Meta:
        model = Computer

    assignment = factory.SubFactory(AssignmentFactory)
    workspace = factory.SelfAttribute("assignment.workspace")
    worker = factory.SelfAttribute("assignment.worker")
    template_version = factory.SubFactory(
        TemplateVersionFactory, workspace=factory.SelfAttribute("..workspace")
    )
    purpose = "attempt"
    engine = "podman"
    engine_ref = factory.LazyFunction(lambda: uuid.uuid4().hex)
    started_at = factory.LazyFunction(lambda: timezone.now() - timedelta(seconds=3))
    ready_at = factory.LazyFunction(timezone.now)
    ready_seconds = fuzzy.FuzzyFloat(0.2, 2.0)

    @factory.lazy_attribute
    def number(self) -> int:
        self.workspace.refresh_from_db(
            fields=["last_computer_number"]
        )  # others have this row in hand as well
        self.workspace.last_computer_number += 1
        self.workspace.save(update_fields=["last_computer_number"])
        return int(self.workspace.last_computer_number)


class StateFactory(DjangoModelFactory[State]):
    """Held by its worker; by default what the forks of a run start from."""

    class Meta:
        model = State

    worker = factory.SubFactory(WorkerFactory)
    workspace = factory.SelfAttribute("worker.workspace")
    origin = State.Origin.PREFIX
    name = factory.LazyAttribute(lambda o: f"{o.origin}-{uuid.uuid4()}")
    digest = factory.LazyAttribute(lambda o: f"sha256:{sha256(o.name)}")
    size_bytes = 200_000_000
    made_at = factory.LazyFunction(lambda: timezone.now() - timedelta(minutes=5))


class AttemptTryFactory(DjangoModelFactory[AttemptTry]):
    """A try that ended well on a computer of its own."""

    class Meta:
        model = AttemptTry

    attempt = factory.SubFactory(AttemptFactory, valid=True)
    number = factory.LazyAttribute(lambda o: o.attempt.try_rows.count() + 1)
    assignment = factory.LazyAttribute(
        lambda o: AssignmentFactory(
            worker=Worker.objects.for_workspace(o.attempt.workspace).first()
            or WorkerFactory(workspace=o.attempt.workspace),
            subject=o.attempt.pk,
            budget=o.attempt.run.budget,
        )
    )
    computer = factory.LazyAttribute(
        lambda o: ComputerFactory(
            assignment=o.assignment,
            template_version=o.attempt.run.template_version,
            group=o.attempt.run_id,
            stopped_at=timezone.now(),
        )
    )
    ok = True
    setup_seconds = 0.2
    ended_at = factory.LazyFunction(timezone.now)
    reward = factory.SelfAttribute("attempt.reward")


class PrefixFactory(DjangoModelFactory[Prefix]):
    """Saved on a worker; its run's attempts are to be told that it is theirs."""

    class Meta:
        model = Prefix

    run = factory.SubFactory(RunFactory)
    workspace = factory.SelfAttribute("run.workspace")
    number = factory.LazyAttribute(lambda o: o.run.prefixes.count() + 1)
    task = factory.LazyAttribute(lambda o: o.run.task_set.tasks.all()[0])
    round = 1
    copy = 1
    status = Prefix.Status.SAVED
    tries = 1
    worker = factory.LazyAttribute(
        lambda o: Worker.objects.for_workspace(o.workspace).first() or WorkerFactory(workspace=o.workspace)
    )
    state = factory.LazyAttribute(lambda o: StateFactory(worker=o.worker))
    state_digest = factory.SelfAttribute("state.digest")
    screenshot = factory.LazyAttribute(lambda o: blob(o.workspace).sha256)
    started_at = factory.LazyFunction(lambda: timezone.now() - timedelta(seconds=3))
    ended_at = factory.LazyFunction(timezone.now)


class PrefixTryFactory(DjangoModelFactory[PrefixTry]):
    """A try that ended well on a computer of its own, which is the prefix's; `actions` are its steps."""

    class Meta:
        model = PrefixTry
        skip_postgeneration_save = True

    prefix = factory.SubFactory(PrefixFactory)
    number = factory.LazyAttribute(lambda o: o.prefix.try_rows.count() + 1)
    assignment = factory.LazyAttribute(
        lambda o: AssignmentFactory(
            kind="prefix", worker=o.prefix.worker, subject=o.prefix.pk, budget=o.prefix.run.budget
        )
    )
    computer = factory.LazyAttribute(
        lambda o: ComputerFactory(
            assignment=o.assignment,
            template_version=o.prefix.run.template_version,
            group=o.prefix.run_id,
            purpose="prefix",
            stopped_at=timezone.now(),
        )
    )
    ok = True
    setup_seconds = 0.2
    ended_at = factory.LazyFunction(timezone.now)

    @factory.post_generation
    def actions(obj: PrefixTry, create: bool, extracted: list[dict[str, Any]], **kwargs: Any) -> None:  # type: ignore[misc]
        shown = blob(obj.prefix.workspace).sha256
        for action in extracted or ():
            StepFactory(prefix_try=obj, attempt_try=None, action=action, prefix=True, screenshot=shown)
        steps = {"computer": obj.computer, "steps": len(extracted or ())}
        Prefix.objects.filter(pk=obj.prefix_id, status=Prefix.Status.SAVED).update(**steps)


class StepFactory(DjangoModelFactory[Step]):
    """Its screenshot is stored: `PNG`. Of an attempt, or with `prefix_try` and no `attempt_try` of a prefix."""

    class Meta:
        model = Step

    attempt_try = factory.SubFactory(AttemptTryFactory)
    prefix_try = None
    number = factory.LazyAttribute(lambda o: (o.attempt_try or o.prefix_try).steps.count() + 1)
    at = factory.LazyFunction(timezone.now)
    action = factory.LazyFunction(lambda: {"action": "click", "x": 10, "y": 20, "button": "left"})
    act_ms = 2.0
    settle_ms = 40.0
    grab_ms = 8.0
    settled = True
    screenshot = factory.LazyAttribute(lambda o: blob(o.attempt_try.attempt.workspace).sha256)
    active_window = "Terminal"


class EvaluationFactory(DjangoModelFactory[Evaluation]):
    """Open, with nothing in it."""

    class Meta:
        model = Evaluation

    workspace = factory.SubFactory(WorkspaceFactory)
    name = factory.Sequence(lambda n: f"evaluation-{n}")
    budget = factory.LazyAttribute(lambda o: open_budget(workspace=o.workspace, cap=None))


class EventFactory(DjangoModelFactory[Event]):
    class Meta:
        model = Event

    run = factory.SubFactory(RunFactory)
    at = factory.LazyFunction(timezone.now)
    kind = "run_created"
    data = factory.LazyFunction(lambda: {"actor": "Olga Owner", "planned": 2})

    @factory.lazy_attribute
    def seq(self) -> int:
        self.run.last_seq += 1
        self.run.save(update_fields=["last_seq"])
        return int(self.run.last_seq)


def blob(workspace: Workspace, data: bytes = PNG, content_type: str = "image/png") -> Blob:
    digest = hashlib.sha256(data).hexdigest()
    return store_blob(workspace=workspace, sha256=digest, data=data, content_type=content_type)


def recount(run: Run) -> Run:
    """Bring the counters of a run in line with its attempts, as the verbs would have left them."""
    rows = list(run.attempts.values_list("status", "verifier", "outcome"))
    for name in ("running", "verifying", "done", "error", "cancelled"):
        setattr(run, name, sum(status == name for status, _, _ in rows))
    run.valid = sum(verifier == "valid" for _, verifier, _ in rows)
    run.invalid = sum(verifier == "invalid" for _, verifier, _ in rows)
    run.success = sum(outcome == "success" for _, _, outcome in rows)
    run.planned = max(run.planned, len(rows))
    run.save()
    return run


class HoldFactory(DjangoModelFactory[Hold]):
    """A computer that somebody has opened, and that waits; `ready=True`: with a desktop."""

    class Meta:
        model = Hold

    class Params:
        spend_cap = Decimal("0.50")
        ready = factory.Trait(
            status=Hold.Status.READY,
            computer=factory.SubFactory(
                ComputerFactory,
                purpose="computer",
                assignment__kind="computer",
                assignment__status="held",
                assignment__worker__workspace=factory.SelfAttribute("....workspace"),
                template_version=factory.SelfAttribute("..template_version"),
            ),
            assignment=factory.SelfAttribute("computer.assignment"),
            started_at=factory.LazyFunction(lambda: timezone.now() - timedelta(minutes=3)),
            last_used_at=factory.LazyFunction(lambda: timezone.now() - timedelta(minutes=1)),
        )

    workspace = factory.SubFactory(WorkspaceFactory)
    template_version = factory.SubFactory(
        TemplateVersionFactory, workspace=factory.SelfAttribute("..workspace")
    )
    budget = factory.LazyAttribute(lambda o: open_budget(workspace=o.workspace, cap=o.spend_cap))
    idle_minutes = 15
    max_minutes = 60
    opened_via = "Mia Member"
