"""Submit a set of rollouts, add to one that is open, seal it. A batch is stored whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from console.actions.audit import record
from console.actions.budgets import open_budget
from console.actor import Actor
from console.doorbell import ring
from console.models import Workspace
from evaluations import sandbox
from evaluations.models import Batch, Evaluation, Mission, Rollout
from evaluations.rules import Refusal, Rules, refusals, settle

LISTED: Final = 100  # identities in a refusal
CHUNK: Final = 2_000


class NameTaken(Exception):
    """Whose it is is not said."""


class Sealed(Exception):
    """Its set of rollouts is final."""


class Duplicates(Exception):
    """`identities` that come twice in the batch, or are in the set already; at most LISTED of them, of `count`."""

    def __init__(self, found: list[str]) -> None:
        super().__init__(f"{len(found)} identities")
        self.identities, self.count = found[:LISTED], len(found)


def submit(*, workspace: Workspace, name: str, document: Mapping[str, Any], actor: Actor) -> Evaluation:
    """A new set, sealed at once unless the document says `open`.

    Raises NameTaken, Duplicates, sandbox.Unusable; then nothing is stored.
    """
    batch = _Checked(workspace, document)
    with transaction.atomic():
        evaluation = _create(workspace, name, document, actor)
        batch.store(evaluation, actor)
        if not document.get("open"):
            _seal(evaluation)
    return evaluation


def add(*, workspace: Workspace, name: str, document: Mapping[str, Any], actor: Actor) -> Evaluation:
    """More rollouts for an open set, which is created open if there is none. Raises as `submit`, and Sealed."""
    batch = _Checked(workspace, document)
    with transaction.atomic():
        evaluation = _locked(workspace, name) or _create_or_wait(workspace, name, document, actor)
        if not evaluation.is_open:
            raise Sealed
        batch.store(evaluation, actor)
    return evaluation


@transaction.atomic
def seal(*, workspace: Workspace, name: str, actor: Actor) -> Evaluation:
    """Nothing can be added any more; rows go on. Sealing twice changes nothing. Raises Evaluation.DoesNotExist."""
    evaluation = Evaluation.objects.for_workspace(workspace).select_for_update(no_key=True).get(name=name)
    if evaluation.is_open:
        _seal(evaluation)
        record(workspace=workspace, actor=actor, action="evaluation.sealed", subject=f"evaluation {name}")
    return evaluation


def complete_if_done(evaluation: Evaluation) -> None:
    """A sealed set whose rows have all ended is complete. The row is locked."""
    if evaluation.status == Evaluation.Status.SEALED and evaluation.ended == evaluation.total:
        evaluation.status, evaluation.completed_at = Evaluation.Status.COMPLETE, timezone.now()
        evaluation.save(update_fields=["status", "completed_at"])


def _seal(evaluation: Evaluation) -> None:
    evaluation.status, evaluation.sealed_at = Evaluation.Status.SEALED, timezone.now()
    evaluation.save(update_fields=["status", "sealed_at"])
    complete_if_done(evaluation)


def _locked(workspace: Workspace, name: str) -> Evaluation | None:
    return (
        Evaluation.objects.for_workspace(workspace).select_for_update(no_key=True).filter(name=name).first()
    )


def _create_or_wait(workspace: Workspace, name: str, document: Mapping[str, Any], actor: Actor) -> Evaluation:
    """Somebody else may create it in this moment: then theirs, if it is this workspace's."""
    try:
        return _create(workspace, name, document, actor)
    except NameTaken:
        theirs = _locked(workspace, name)
        if theirs is None:
            raise
        return theirs


def _create(workspace: Workspace, name: str, document: Mapping[str, Any], actor: Actor) -> Evaluation:
    mission = None
    if slug := document.get("mission"):
        mission, _ = Mission.objects.get_or_create(workspace=workspace, slug=slug)
    try:
        with transaction.atomic():
            evaluation = Evaluation.objects.create(
                workspace=workspace,
                name=name,
                mission=mission,
                budget=open_budget(workspace=workspace, cap=None, under=actor.budget),
                creator=actor.user,
                created_via=actor.label[:120],
            )
    except IntegrityError as error:
        raise NameTaken from error
    record(workspace=workspace, actor=actor, action="evaluation.created", subject=f"evaluation {name}")
    return evaluation


class _Checked:
    """A batch that can be played, before anything is stored. Raises sandbox.Unusable, Duplicates."""

    def __init__(self, workspace: Workspace, document: Mapping[str, Any]) -> None:
        wrong = list(refusals(document))
        kind = document["environment"]["kind"]
        if kind != "sandbox":
            words = f"Environments of the kind {kind} cannot be played here yet; sandbox can."
            wrong.append(Refusal("environment.kind", "not_yet", words))
        if document.get("group") is not None:
            wrong.append(Refusal("group", "not_yet", "Groups cannot be played here yet."))
        if wrong:
            raise sandbox.Unusable(wrong)
        self.document = document
        self.rules: Rules = settle(document)
        self.policy = document.get("policy") or ""
        self.place = sandbox.environment(document["environment"], workspace)
        self.rows = sandbox.rows(self.rules, self.place, workspace, self.policy)
        twice = [one for one, count in Counter(row.identity for row in self.rows).items() if count > 1]
        if twice:
            raise Duplicates(twice)

    def store(self, evaluation: Evaluation, actor: Actor) -> None:
        """The evaluation's row is locked, so nobody adds meanwhile."""
        have: set[str] = set()
        for start in range(0, len(self.rows), CHUNK):
            asked = [row.identity for row in self.rows[start : start + CHUNK]]
            rows = Rollout.objects.filter(evaluation=evaluation, identity__in=asked)
            have.update(rows.values_list("identity", flat=True))
        if have:
            raise Duplicates([row.identity for row in self.rows if row.identity in have])
        batch = Batch.objects.create(
            evaluation=evaluation,
            number=evaluation.batches_added + 1,
            document=_as_sent(self.document),
            kind=self.rules.kind,
            environment_digest=self.place.digest,
            template_version=self.place.template_version,
            state=self.place.state,
            judge=self.rules.judge.text,
            policy=self.policy,
            profile=self.rules.profile,
            memo=self.rules.memo,
            repro_class=self.rules.repro_class,
            labels=self.document.get("labels") or {},
            created_by=actor.label[:120],
        )
        made = (
            Rollout(
                workspace=evaluation.workspace,
                evaluation=evaluation,
                batch=batch,
                number=evaluation.total + place,
                identity=row.identity,
                spec=row.spec,
                seed=row.seed,
                task=row.task,
            )
            for place, row in enumerate(self.rows, start=1)
        )
        Rollout.objects.bulk_create(made, batch_size=CHUNK)
        Evaluation.objects.filter(pk=evaluation.pk).update(
            total=F("total") + len(self.rows), batches_added=F("batches_added") + 1
        )
        evaluation.refresh_from_db(fields=["total", "batches_added"])
        ring("supervisor", f"workspace.{evaluation.workspace.slug}")


def _as_sent(document: Mapping[str, Any]) -> dict[str, Any]:
    """Without what was left out, and the judge and the state by their names."""
    said = {name: value for name, value in document.items() if value is not None and value != {}}
    place = said["environment"]
    return {
        **said,
        "judge": said["judge"].text,
        "environment": {
            name: value if isinstance(value, str) else str(value) for name, value in place.items()
        },
    }
