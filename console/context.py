"""What the shell around every page needs: the workspace in the address, the person's others, the theme.

Everything is looked up when the template asks for it, so a partial page costs no query here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone

from console.actions.workspaces import may_open_workspaces
from console.models import Budget, Membership, Workspace
from console.spending import so_far

THEMES = ("light", "dark")


@dataclass(frozen=True)
class Link:
    href: str
    word: str
    icon: str
    current: bool
    count: int | None = None


# Groups of the rail: heading, then name of the address, word, icon, stems of the addresses that are in it.
_GROUPS: tuple[tuple[str, tuple[tuple[str, str, str, tuple[str, ...]], ...]], ...] = (
    (
        "",
        (
            ("workspace-home", "Home", "house", ("workspace-home",)),
            ("run-list", "Runs", "play", ("run", "attempt")),
            ("computer-list", "Computers", "monitor", ("computer",)),
            ("evaluation-list", "Evaluations", "layers", ("evaluation",)),
            ("mission-list", "Missions", "flag", ("mission",)),
        ),
    ),
    (
        "Material",
        (
            ("task-set-list", "Task sets", "list-checks", ("task",)),
            ("template-list", "Templates", "box", ("template",)),
            ("worker-list", "Workers", "server", ("worker",)),
            ("state-list", "Saved desktops", "hard-drive", ("state",)),
        ),
    ),
    (
        "Workspace",
        (
            ("member-list", "Members", "users", ("member",)),
            ("token-list", "Tokens", "key-round", ("token",)),
            ("budget", "Budget", "wallet", ("budget",)),
            ("webhook-list", "Webhooks", "webhook", ("webhook",)),
            ("audit-log", "Audit log", "history", ("audit",)),
            ("settings", "Settings", "settings", ("settings",)),
        ),
    ),
)


_FOR_MANAGERS = {"webhook-list", "audit-log", "settings"}


class Shell:
    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self.workspace: Workspace | None = getattr(request, "workspace", None)
        self.membership: Membership | None = getattr(request, "membership", None)

    @cached_property
    def workspaces(self) -> list[Workspace]:
        return list(Workspace.objects.of(self._request.user).order_by("name"))  # type: ignore[arg-type]

    @property
    def may_open_workspaces(self) -> bool:
        return may_open_workspaces(self._request.user)

    @cached_property
    def groups(self) -> list[tuple[str, list[Link]]]:
        return [(heading, list(self._links(links))) for heading, links in _GROUPS]

    def _links(self, links: tuple[tuple[str, str, str, tuple[str, ...]], ...]) -> Iterator[Link]:
        here = self._request.resolver_match
        name = (here.url_name or "") if here else ""
        manages = self.membership is not None and self.membership.manages
        for address, word, icon, stems in links:
            if address in _FOR_MANAGERS and not manages:
                continue
            try:
                href = reverse(address, args=[self.workspace.slug]) if self.workspace else ""
            except NoReverseMatch:  # an app that is not installed has no page
                continue
            current = any(name == stem or name.startswith(f"{stem}-") for stem in stems)
            count = self.workspace.last_run_number if address == "run-list" and self.workspace else None
            yield Link(href, word, icon, current, count or None)

    @cached_property
    def budget(self) -> Budget | None:
        return Budget.objects.filter(workspace=self.workspace, parent=None).first()

    @cached_property
    def spent(self) -> Decimal:
        """What desktops that run have cost by now is in it."""
        if self.budget is None or self.workspace is None:
            return Decimal(0)
        now = getattr(self._request, "now", None) or timezone.now()
        return so_far(self.workspace, [self.budget], now)[self.budget.pk].spent

    @cached_property
    def desktops(self) -> dict[str, int]:
        """Desktops held now, and the slots of connected workers."""
        from django.apps import apps
        from django.db.models import Sum

        computers = apps.get_model("desktops", "Computer")
        workers = apps.get_model("desktops", "Worker")
        if self.workspace is None:
            return {"held": 0, "slots": 0}
        held = computers.objects.for_workspace(self.workspace).held().count()
        slots = workers.objects.for_workspace(self.workspace).connected().aggregate(all=Sum("slots"))["all"]
        return {"held": held, "slots": slots or 0}


def shell(request: HttpRequest) -> dict[str, Any]:
    theme = request.COOKIES.get("theme")
    return {
        "theme": theme if theme in THEMES else "",
        "shell": Shell(request),
        "sends_mail": bool(settings.EMAIL_HOST),
    }
