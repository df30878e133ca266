"""What the worker of an open computer is asked to do with it: stored, told to it until it answers, answered once."""

from __future__ import annotations

import time
from typing import Final

from django.db import transaction
from django.utils import timezone

from console.actions.audit import record as audit
from console.actor import Actor
from console.doorbell import ring
from desktops.models import Ask, Hold, State, TemplateVersion, Worker
from desktops.protocol import messages
from desktops.protocol.hold import Answered

from .drafts import drop
from .holds import NotReady, locked, require_may_use

LOOK_SECONDS: Final = 0.2


@transaction.atomic
def save_computer(hold: Hold, *, label: str, keep_days: int, actor: Actor) -> Ask:
    """Have it saved as it is now: others can start from that. It goes on. Raises NotAllowed, NotReady."""
    row = locked(hold.pk)
    ask = put(row, Ask.What.SAVE, label=label, keep_days=keep_days, actor=actor, what_for="save it")
    detail = ({"name": label} if label else {}) | {"keep_days": keep_days}
    audit(
        workspace=row.workspace,
        actor=actor,
        action="computer.saved",
        subject=f"computer {row}",
        detail=detail,
    )
    return ask


def put(
    hold: Hold,
    what: str,
    *,
    actor: Actor,
    what_for: str,
    label: str = "",
    keep_days: int | None = None,
    version: TemplateVersion | None = None,
) -> Ask:
    """One at a time. The caller holds the computer's lock."""
    require_may_use(hold, actor, what=what_for)
    if hold.status != Hold.Status.READY:
        raise NotReady(
            f"This computer is {hold.get_status_display().lower()}; only one that is ready can be saved."
        )
    if hold.asks.filter(status=Ask.Status.ASKED).exists():
        raise NotReady("This computer is being saved already. Wait until that is done.")
    ask = Ask.objects.create(
        hold=hold,
        what=what,
        label=label,
        keep_days=keep_days,
        template_version=version,
        asked_by=actor.label[:120],
    )
    Hold.objects.filter(pk=hold.pk).update(last_used_at=timezone.now())
    assert hold.assignment is not None
    ring(f"worker.{hold.assignment.worker_id}", f"workspace.{hold.workspace.slug}")
    return ask


def awaited(ask: Ask, seconds: float) -> Ask:
    """The same, once it is answered, or after so many seconds as it is then. Outside of a transaction."""
    end = time.monotonic() + seconds
    while ask.status == Ask.Status.ASKED and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)  # between two probes
        ask.refresh_from_db()
    return ask


def to_ask(worker: Worker) -> list[messages.Ask]:
    """What this worker has not answered yet."""
    open_ = Ask.objects.filter(
        status=Ask.Status.ASKED, hold__assignment__worker=worker, hold__status=Hold.Status.READY
    )
    rows = open_.select_related("hold__assignment", "template_version__template").order_by("asked_at")
    return [_message(ask) for ask in rows]


def _message(ask: Ask) -> messages.Ask:
    assignment = ask.hold.assignment
    assert assignment is not None
    do: messages.Save | messages.MakeImage
    if ask.what == Ask.What.SAVE:
        do = messages.Save(name=ask.state_name)
    else:
        version = ask.template_version
        assert version is not None
        do = messages.MakeImage(template=version.template.name, version=version.version)
    return messages.Ask(ask=str(ask.pk), assignment=str(assignment.pk), epoch=assignment.epoch, do=do)


def answered(hold: Hold, ask: Ask, record: Answered) -> None:
    """The caller holds the computer's lock. Raises ValueError for an answer that does not fit what was asked."""
    version = ask.template_version
    if not record.error and ask.what == Ask.What.SAVE:
        ask.state = State.objects.filter(worker=hold.assignment.worker_id, name=ask.state_name).first()  # type: ignore[union-attr]
        if ask.state is None:
            raise ValueError("It is said to be saved, and nothing was told of what was saved.")
    elif not record.error:
        image = record.image
        if (
            version is None
            or image is None
            or (image.name, image.version) != (version.template.name, version.version)
        ):
            raise ValueError("The image that was made is not the one that was asked for.")
        version.digest = image.digest
        version.save(update_fields=["digest"])
    elif version is not None:
        ask.template_version = None
        drop(version)
    ask.status = Ask.Status.FAILED if record.error else Ask.Status.DONE
    ask.error, ask.answered_at = record.error, timezone.now()
    ask.save(update_fields=["status", "error", "answered_at", "state", "template_version"])
    ring(f"workspace.{hold.workspace.slug}")
