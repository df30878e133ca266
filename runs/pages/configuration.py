"""Configuration: the request as it was accepted, what it resolved to, and how it differs from another run's."""

from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from typing import Any, NamedTuple

from django.http import HttpResponse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from console.pages.loaders import WorkspaceRequest, workspace_page
from desktops.models import Computer, WorkerRate
from runs import scoring, spec
from runs.models import AttemptTry, Run, Task
from runs.pages.frame import never_stored, render_tab
from runs.pages.loaders import run_or_404

OTHERS_OFFERED = 25


class Material(NamedTuple):
    noun: str
    named: str
    digest: str


class Difference(NamedTuple):
    field: str
    here: str
    there: str


@require_safe
@never_stored
@workspace_page
def configuration(request: WorkspaceRequest, number: int) -> HttpResponse:
    run = run_or_404(request, number)
    # The database keeps no order of keys.
    asked_for = {name: run.spec[name] for name in (*spec.FIELDS, *run.spec) if name in run.spec}
    document = json.dumps(asked_for, indent=2, ensure_ascii=False)
    others = list(
        Run.objects.for_workspace(request.workspace)
        .exclude(pk=run.pk)
        .only("number", "name", "spec")[:OTHERS_OFFERED]
    )
    asked = request.GET.get("with", "")
    other = None
    if asked.isdecimal() and len(asked) < 9:
        other = (
            Run.objects.for_workspace(request.workspace).filter(number=int(asked)).exclude(pk=run.pk).first()
        )
    context = {
        "document": document,
        "painted": painted(asked_for),
        "fields": len(run.spec),
        "request_digest": digest_of(run.spec),
        "materials": materials(run),
        "worker_rates": WorkerRate.objects.filter(template=run.template_version.template_id)
        .select_related("worker")
        .order_by("worker__name"),
        "caps": scoring.caps(run),
        "asked_spend": Decimal(run.spec["spend_cap_usd"]),
        "others": others,
        "other": other,
        "differences": differences(run.spec, other.spec) if other else [],
        "same": len(run.spec) - len(differences(run.spec, other.spec)) if other else 0,
    }
    return render_tab(request, run, "run-configuration", "runs/configuration.html", context)


def digest_of(document: Any) -> str:
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def materials(run: Run) -> list[Material]:
    """What names stood for when the run was made. Three queries."""
    tasks = dict(Task.objects.filter(pk__in=run.task_ids).values_list("pk", "digest"))
    recipes = dict(Task.objects.filter(pk__in=run.task_ids).values_list("pk", "recipe_digest"))
    in_order = [tasks[pk] for pk in run.task_ids if pk in tasks]
    found = [
        Material("Task set", str(run.task_set), run.task_set.digest),
        Material("Tasks", f"{len(in_order):,}, one digest each", digest_of(in_order)),
        Material("Template, as built from", str(run.template_version), run.template_version.digest),
    ]
    if run.is_scripted:
        played = [recipes[pk] for pk in run.task_ids if pk in recipes]
        found.insert(2, Material("Recipes", f"{len(played):,}, one digest each", digest_of(played)))
    first_round = run.attempts.filter(number__lte=run.planned // run.spec["rounds"], copy=1, fork=1)
    judged = first_round.filter(status="done", verifier="valid").values("pk")
    checkers = sorted(
        AttemptTry.objects.filter(attempt__in=judged, verdict__isnull=False)
        .values_list("verdict__checker", "verdict__checker_digest")
        .order_by()
        .distinct()
    )
    if checkers:
        code = sorted({digest for _, digest in checkers})
        named = checkers[0][0] if len(checkers) == 1 else f"{len(checkers):,} checkers, each task its own"
        found.append(Material("Checker code", named, code[0] if len(code) == 1 else digest_of(code)))
    last = Computer.objects.filter(group=run.pk).order_by("-number").first()
    if last and last.image_id:
        found.append(Material("Image in use", f"of {last}, the last desktop", last.image_id))
    return found


def differences(here: dict[str, Any], there: dict[str, Any]) -> list[Difference]:
    fields = [*here, *(field for field in there if field not in here)]
    return [
        Difference(field, _short(here.get(field)), _short(there.get(field)))
        for field in fields
        if here.get(field) != there.get(field)
    ]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, list) and len(text) > 100:
        return f"{len(value)} of them, {digest_of(value)[:17]}…"
    return text if len(text) <= 100 else f"{text[:99]}…"


def painted(document: dict[str, Any]) -> SafeString:
    """The document as JSON with its keys and texts told apart. Everything in it is escaped."""
    lines = [
        format_html('  <span class="k">{}</span>: {}', json.dumps(key), _value(value))
        for key, value in document.items()
    ]
    return format_html("{{\n{}\n}}", format_html_join(",\n", "{}", ((line,) for line in lines)))


def _value(value: Any) -> SafeString:
    if isinstance(value, list):
        items = format_html_join(",\n", "    {}", ((_value(item),) for item in value))
        return format_html("[\n{}\n  ]", items) if value else format_html("[]")
    css = "v" if isinstance(value, str) else ""
    return format_html('<span class="{}">{}</span>', css, json.dumps(value, ensure_ascii=False))
