"""What happens to a rollout, one verb each. The evaluation's row is locked: its counters move with its rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from django.utils import timezone

from desktops.models import Assignment
from desktops.protocol import attempt as protocol
from evaluations.models import Evaluation, Rollout, RolloutTry, Verdict
from runs.limits import TRIES

from .submit import complete_if_done

S, V = Rollout.Status, Rollout.Verifier
# Somebody took the desktop over: another try would be no repetition of anything.
NOT_RETRIED: Final = frozenset({"human_intervened"})


def _counted(rollout: Rollout) -> dict[str, int]:
    valid = rollout.verifier == V.VALID
    return {
        "running": int(rollout.status == S.RUNNING),
        "done": int(rollout.status == S.DONE),
        "error": int(rollout.status == S.ERROR),
        "valid": int(valid),
        "success": int(valid and (rollout.reward or 0) >= 1.0),
        "memo_hits": int(rollout.source_id is not None),
    }


def change(evaluation: Evaluation, rollout: Rollout, **fields: Any) -> None:
    """Write fields of a rollout and move the counters by the difference."""
    before = _counted(rollout)
    for name, value in fields.items():
        setattr(rollout, name, value)
    rollout.save(update_fields=list(fields))
    after = _counted(rollout)
    moved = [name for name in after if after[name] != before[name]]
    for name in moved:
        setattr(evaluation, name, getattr(evaluation, name) + after[name] - before[name])
    if moved:
        evaluation.save(update_fields=moved)
    if rollout.status in Rollout.TERMINAL:
        complete_if_done(evaluation)


def begin_try(evaluation: Evaluation, rollout: Rollout, assignment: Assignment) -> RolloutTry:
    """It was handed to a worker."""
    change(
        evaluation,
        rollout,
        status=S.RUNNING,
        tries=rollout.tries + 1,
        started_at=rollout.started_at or timezone.now(),
    )
    return RolloutTry.objects.create(rollout=rollout, number=rollout.tries, assignment=assignment)


def judged(rollout: Rollout, said: protocol.Verdict) -> None:
    """Stored the moment it arrives; the rollout ends when its desktop has."""
    Verdict.objects.create(
        rollout=rollout,
        judge=rollout.batch.judge,
        digest=said.checker_digest,
        reward=said.reward,
        evidence=[part.model_dump(mode="json") for part in said.evidence],
        screenshot=said.screenshot,
        at=said.at,
    )


def end_try(
    evaluation: Evaluation,
    one: RolloutTry,
    *,
    at: datetime,
    reasons: Sequence[str] = (),
    detail: str = "",
    judge_error: str = "",
) -> None:
    """With its verdict if there is one, whatever broke after it; else played again, or ended without. Never a Fail."""
    rollout = one.rollout
    verdict = rollout.verdicts.filter(judge=rollout.batch.judge).first()
    reasons = one.invalid_reasons or list(reasons)  # what was known before its end stands
    one.ok, one.ended_at = verdict is not None and not one.invalid_reasons, at
    one.invalid_reasons, one.detail, one.judge_error = ([] if one.ok else reasons), detail, judge_error
    one.save(update_fields=["ok", "ended_at", "invalid_reasons", "detail", "judge_error"])
    if one.ok and verdict is not None:
        change(evaluation, rollout, status=S.DONE, verifier=V.VALID, reward=verdict.reward, ended_at=at)
    elif rollout.tries < TRIES and not NOT_RETRIED.intersection(reasons):
        change(evaluation, rollout, status=S.QUEUED)
    elif NOT_RETRIED.intersection(reasons):
        change(evaluation, rollout, status=S.DONE, verifier=V.INVALID, invalid_reasons=reasons, ended_at=at)
    else:
        change(evaluation, rollout, status=S.ERROR, invalid_reasons=reasons, ended_at=at)


def give_up(evaluation: Evaluation, rollout: Rollout, *, reason: str) -> None:
    """Nothing can play it any longer."""
    change(evaluation, rollout, status=S.ERROR, invalid_reasons=[reason], ended_at=timezone.now())


def take_memo(evaluation: Evaluation, rollout: Rollout, source: Rollout) -> None:
    """The verdict of one of the same identity, unbilled."""
    for verdict in source.verdicts.filter(judge=rollout.batch.judge):
        verdict.pk, verdict.rollout = None, rollout
        verdict.save(force_insert=True)
    change(
        evaluation,
        rollout,
        status=S.DONE,
        verifier=V.VALID,
        reward=source.reward,
        source=source,
        ended_at=timezone.now(),
    )
