"""What tests do with computers that somebody opens: open one, and say what its worker says."""

from __future__ import annotations

import uuid
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from console.actor import Actor
from console.models import User, Workspace
from desktops.actions.holds import open_computer
from desktops.models import Ask, Assignment, Hold
from runs.supervisor import one_pass
from tests.factories import TemplateVersionFactory, sha256
from tests.runs.paper_worker import PaperWorker


def opened(workspace: Workspace, user: User, **changes: Any) -> Hold:
    """Asked for, and waiting."""
    version = changes.pop("template_version", None) or TemplateVersionFactory(workspace=workspace)
    limits = {"idle_minutes": 15, "max_minutes": 60, "spend_cap": Decimal("0.50")}
    actor = changes.pop("actor", None) or Actor.person(user)
    return open_computer(workspace=workspace, template_version=version, actor=actor, **{**limits, **changes})


def assignment_of(hold: Hold) -> Assignment:
    hold.refresh_from_db()
    assert hold.assignment is not None
    return hold.assignment


def start(paper: PaperWorker, hold: Hold) -> str:
    """Handed out, started and ready; gives its computer's id."""
    one_pass()
    paper.beat()
    computer = str(uuid.uuid4())
    assignment = assignment_of(hold)
    saved = assignment.payload["state"]
    paper.say(
        assignment,
        {"kind": "computer_started", "computer": computer, "engine": "fake", "from_state": saved},
        {"kind": "computer_ready", "computer": computer, "seconds": 0.4},
    )
    hold.refresh_from_db()
    return computer


def end(
    paper: PaperWorker, hold: Hold, computer: str, reasons: list[str] | None = None, detail: str = ""
) -> None:
    """As it was told to, or by itself for the reasons given."""
    asked = reasons is None
    paper.say(
        assignment_of(hold),
        {"kind": "computer_stopped", "computer": computer, "reason": "stopped"},
        {
            "kind": "hold_ended",
            "ok": asked,
            "stopped": asked,
            "invalid_reasons": reasons or [],
            "detail": detail,
        },
    )
    hold.refresh_from_db()


def answer(paper: PaperWorker, ask: Ask, computer: str = "", **fields: Any) -> Any:
    """As asked, or with the `error` or `image` given."""
    records: list[dict[str, Any]] = []
    if ask.what == Ask.What.SAVE and not fields:
        records.append(
            {
                "kind": "state_saved",
                "computer": computer,
                "name": ask.state_name,
                "digest": f"sha256:{sha256('state')}",
                "size_bytes": 60_000_000,
                "seconds": 0.5,
            }
        )
    elif not fields:
        version = ask.template_version
        assert version is not None
        made = {"name": version.template.name, "version": version.version, "digest": digest(version)}
        fields = {"image": made}
    applied = paper.say(assignment_of(ask.hold), *records, {"kind": "answered", "ask": str(ask.pk), **fields})
    ask.refresh_from_db()
    return applied


def digest(version: object) -> str:
    return f"sha256:{sha256(str(version))}"


def age(hold: Hold, **minutes: int) -> None:
    """Move its times into the past: `started_at=61`, …"""
    now = timezone.now()
    Hold.objects.filter(pk=hold.pk).update(
        **{name: now - timedelta(minutes=count) for name, count in minutes.items()}
    )
