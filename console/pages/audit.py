"""The audit log of a workspace, for those who manage it: newest first, filtered, and whole as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from django.db.models import QuerySet
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import URLPattern, path
from django.views.decorators.http import require_safe

from console.models import AuditEntry, User, Workspace
from console.sheets import csv_line
from console.streaming import Streamed

from .audit_words import details
from .loaders import WorkspaceRequest, managers_only, workspace_page
from .paging import by_number, query_with, typed_number

ROWS: Final = 100
CHUNK: Final = 500
KINDS: Final = {
    AuditEntry.ActorKind.OPERATOR: "The operator",
    AuditEntry.ActorKind.SYSTEM: "Deskyard itself",
    AuditEntry.ActorKind.NOBODY: "Somebody not signed in",
}
COLUMNS: Final = ("at", "who", "kind", "person", "action", "subject", "via", "ip", "detail")


def words(action: str) -> str:
    """`member.role_changed` → Member role changed."""
    return action.replace(".", " ").replace("_", " ").capitalize()


def _day(text: str) -> datetime | None:
    """Midnight UTC at the day's begin; None for what is no date."""
    try:
        return datetime.combine(date.fromisoformat(text), time(), tzinfo=UTC)
    except ValueError:
        return None


def _next_day(day: datetime) -> datetime:
    return day + timedelta(days=1) if day.date() < date.max else day


def filtered(workspace: Workspace, asked: QueryDict) -> QuerySet[AuditEntry]:
    """By `action` (whole or its first word), `who` (a person's number or a kind of actor), the days `from` and `to`."""
    entries: QuerySet[AuditEntry] = AuditEntry.objects.for_workspace(workspace)
    if action := asked.get("action"):
        known = AuditEntry.objects.that_occur(workspace, "action")
        entries = entries.filter(action__in=[one for one in known if f"{one}.".startswith(f"{action}.")])
    who = asked.get("who", "")
    if (number := typed_number(who)) is not None:
        entries = entries.filter(user_id=number)
    elif who:
        entries = entries.filter(actor_kind=who)
    if begin := _day(asked.get("from", "")):
        entries = entries.filter(at__gte=begin)
    if end := _day(asked.get("to", "")):
        entries = entries.filter(at__lt=_next_day(end))
    return entries


def _actions(request: WorkspaceRequest) -> list[tuple[str, list[tuple[str, str]]]]:
    """Those that occur, in groups by their first word: (first word, its words, [(action, its words)])."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for action in AuditEntry.objects.that_occur(request.workspace, "action"):
        groups.setdefault(action.partition(".")[0], []).append((action, words(action)))
    return list(groups.items())


def _people(request: WorkspaceRequest) -> list[User]:
    """Members, and whoever else has left an entry here."""
    members = set(request.workspace.memberships.values_list("user", flat=True))
    acted = AuditEntry.objects.that_occur(request.workspace, "user_id")
    return sorted(User.objects.filter(pk__in=members.union(acted)), key=lambda user: str(user).lower())


@require_safe
@workspace_page
@managers_only
def audit_log(request: WorkspaceRequest) -> HttpResponse:
    page = by_number(
        filtered(request.workspace, request.GET).select_related("user"), request.GET, rows=ROWS, field="pk"
    )
    context: dict[str, Any] = {
        "page": page,
        "told": [(entry, words(entry.action), details(entry.action, entry.detail)) for entry in page.rows],
        "asked": request.GET,
        "is_filtered": any(request.GET.get(name) for name in ("action", "who", "from", "to")),
        "actions": _actions(request),
        "people": _people(request),
        "kinds": list(KINDS.items()),
        "query": query_with(request.GET),
    }
    return render(request, "workspace/audit.html", context)


def _detail(entry: AuditEntry) -> list[tuple[str, str]]:
    """The detail as it was noted, name by name, for the file."""
    return [(name.replace("_", " "), _value(value)) for name, value in entry.detail.items()]


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _lines(entries: QuerySet[AuditEntry]) -> Iterator[bytes]:
    yield csv_line(COLUMNS)
    for entry in entries.select_related("user").order_by("-pk").iterator(chunk_size=CHUNK):
        yield csv_line(
            (
                entry.at.isoformat(),
                entry.actor_label,
                entry.actor_kind,
                entry.user.email if entry.user else "",
                entry.action,
                entry.subject,
                entry.via,
                entry.ip,
                "; ".join(f"{name}: {value}" for name, value in _detail(entry)),
            )
        )


@require_safe
@workspace_page
@managers_only
def download(request: WorkspaceRequest) -> Streamed:
    name = f"audit-{request.workspace.slug}-{datetime.now(UTC):%Y-%m-%d}.csv"
    return Streamed(
        _lines(filtered(request.workspace, request.GET)),
        content_type="text/csv; charset=utf-8",
        filename=name,
    )


urlpatterns: list[URLPattern] = [
    path("audit/", audit_log, name="audit-log"),
    path("audit/audit.csv", download, name="audit-download"),
]
