"""One attempt: the replay, step by step, what the verifier read, and every try."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.pages.figures import place, share
from console.pages.loaders import WorkspaceRequest, workspace_page
from console.templatetags.deskyard import milliseconds
from desktops.worker.task import BadTask, Check, parse
from runs.models import Attempt, AttemptTry, PrefixTry, Run, Step, Task, TaskTally
from runs.pages import readable, sentences
from runs.pages.forks import comparisons, page_of, siblings
from runs.pages.frame import never_stored, optional_address
from runs.pages.loaders import attempt_or_404, base_template, run_or_404

LONG: Final = 120  # of a value in a cell; the whole one is a press away


@dataclass(frozen=True)
class Shown:
    """A place in the replay: the screen an action met, with where it acted. The last place is how it ended."""

    number: int
    screenshot: str
    action: dict[str, Any]
    words: str
    icon: str
    step: Step | None
    took: str
    lane: list[tuple[str, str, str]]  # x, width, class of the timeline

    @property
    def name(self) -> str:
        return str(self.action.get("action", "end"))

    @property
    def arrow(self) -> tuple[int, int] | None:
        """Where a scroll points, from its place."""
        if self.name != "scroll":
            return None
        dx, dy = self.action.get("dx", 0), self.action.get("dy", 0)
        return (70 if dx > 0 else -70 if dx < 0 else 0), (70 if dy > 0 else -70 if dy < 0 else 0)

    @property
    def typed(self) -> bool:
        return self.name in ("type", "key")


class Value(NamedTuple):
    """What was read, in a line; `whole`, where the line had to be cut; `sha` of the file, where it is one."""

    text: str
    whole: str = ""
    sha: str = ""


@dataclass(frozen=True)
class Finding:
    label: str
    metric: str
    found: Value
    expected: Value
    matches: bool
    note: str
    artefacts: list[tuple[str, str]]


@require_safe
@never_stored
@workspace_page
def attempt(request: WorkspaceRequest, number: int, attempt: int) -> HttpResponse:
    run = run_or_404(request, number)
    one = attempt_or_404(run, attempt)
    tries = list(one.try_rows.select_related("computer__worker", "assignment__worker").order_by("number"))
    wanted = request.GET.get("try", "")
    chosen = next((row for row in tries if str(row.number) == wanted), tries[-1] if tries else None)
    shared = shared_prefix(one, chosen) if chosen else None
    places = replay(chosen, shared) if chosen else []
    at = _place(request.GET.get("step", ""), places)
    verdict = (chosen.verdict if chosen else None) or {}
    findings = findings_of(verdict.get("evidence", []), one.task)
    others = TaskTally.objects.filter(run=run, task=one.task_id).first()
    stored = run.rounds_created * (run.planned // run.spec["rounds"])
    end = one.ended_at or timezone.now()
    context = {
        "base_template": base_template(request),
        "slug": request.workspace.slug,
        "run": run,
        "attempt": one,
        "tries": tries,
        "chosen": chosen,
        "shared": shared,
        "places": places,
        "at": at,
        "shown": places[at - 1] if places else None,
        "verdict": verdict,
        "findings": findings,
        "differing": [found for found in findings if not found.matches],
        "recipe_length": recipe_length(run, one),
        "others": others,
        "previous": one.number - 1 if one.number > 1 else None,
        "next": one.number + 1 if one.number < stored else None,
        "took": (end - one.started_at).total_seconds() if one.started_at else None,
        "reasons": sentences.reasons(one.invalid_reasons),
        "ours": bool(sentences.OURS.intersection(one.invalid_reasons)),
        "faults_of_ours": any(sentences.OURS.intersection(each.invalid_reasons) for each in tries),
        "reason_words": sentences.INVALID_REASONS,
        "task_url": optional_address("task", request.workspace.slug, run.task_set.name, one.task.task_id),
        "siblings": siblings(run, one),
        "compared": comparisons(run, one.number, one.number).get(one.number)
        if run.spec["fork_copies"] > 1
        else None,
        "forks_page": page_of(run, one),
        "is_live": not one.is_terminal,
    }
    reply = render(request, "runs/attempt.html", context)
    reply["Vary"] = "HX-Request, Cookie"
    return reply


@require_safe
@never_stored
@workspace_page
def card(request: WorkspaceRequest, number: int, attempt: int) -> HttpResponse:
    """What a cell of the progress grid says when somebody points at it."""
    run = run_or_404(request, number)
    one = attempt_or_404(run, attempt)
    return render(
        request,
        "runs/card.html",
        {"run": run, "attempt": one, "reasons": sentences.reasons(one.invalid_reasons)},
    )


def recipe_length(run: Run, one: Attempt) -> int | None:
    """How many actions its recipe has, where the step limit ended the attempt before the last of them."""
    if (
        not run.is_scripted
        or one.verifier == Attempt.Verifier.NOT_CHECKED
        or one.steps < run.spec["max_steps"]
    ):
        return None
    length = len(one.task.recipe or ())
    return length if length > one.steps else None


def _place(asked: str, places: list[Shown]) -> int:
    """The step asked for, else the screen that was left when it said done: the checker may close all before the end."""
    last = len(places)
    if asked.isdecimal() and len(asked) < 6:
        return min(max(int(asked), 1), last)
    said_done = last > 1 and places[-2].name in ("done", "fail")
    return last - 1 if said_done else last


def shared_prefix(attempt: Attempt, one: AttemptTry) -> PrefixTry | None:
    """The try of the prefix that this one's desktop was forked from; none where it plays its first steps itself."""
    if attempt.prefix_id is None or not one.from_state.startswith("prefix-"):
        return None
    tries = PrefixTry.objects.filter(prefix=attempt.prefix_id, ok=True)
    return tries.select_related("prefix", "computer__worker").order_by("-number").first()


def replay(one: AttemptTry, shared: PrefixTry | None) -> list[Shown]:
    """A place for each step, showing the screen before it, and one for the screen after the last. A fork's steps come
    after those of the prefix that it shares."""
    steps = [*(shared.steps.order_by("number") if shared else ()), *one.steps.order_by("number")]
    whole = sum(step.took_ms for step in steps) or 1
    places: list[Shown] = []
    before, gone = shared.setup_screenshot if shared else one.setup_screenshot, 0.0
    for step in steps:
        act = step.act_ms + step.grab_ms
        lane = [
            (place(share(gone, whole)), place(max(0.6, share(step.policy_ms, whole))), "f-acc"),
            (
                place(share(gone + step.policy_ms, whole)),
                place(max(0.6, share(act + step.settle_ms, whole))),
                "f-ink2",
            ),
        ]
        places.append(
            Shown(
                step.number,
                before,
                step.action,
                sentences.action_words(step.action),
                sentences.ACTION_ICONS.get(step.action.get("action", ""), "mouse-pointer-2"),
                step,
                milliseconds(step.took_ms),
                lane if step.policy_ms else lane[1:],
            )
        )
        before, gone = step.screenshot, gone + step.took_ms
    last = (one.verdict or {}).get("screenshot") or before
    if last:
        places.append(Shown(len(places) + 1, last, {}, "", "flag", None, "", []))
    return places


def findings_of(evidence: list[dict[str, Any]], task: Task) -> list[Finding]:
    """What was read of each check. Where nothing was found, what was wanted was not read either: the task says it."""
    found = [finding(item) for item in evidence]
    if all(one.expected.text for one in found):
        return found
    try:
        checks = parse(task.document).evaluator.checks
    except BadTask:
        return found
    if len(checks) != len(found):
        return found
    return [
        one if one.expected.text else replace(one, expected=_wanted(check))
        for one, check in zip(found, checks, strict=True)
    ]


def finding(item: dict[str, Any]) -> Finding:
    artefacts = item.get("artefacts") or {}
    return Finding(
        item.get("label", ""),
        " ".join(part for part in (item.get("getter"), item.get("metric")) if part),
        _value(item.get("found"), artefacts),
        _value(item.get("expected"), artefacts),
        item.get("reward", 0) >= 1.0,
        item.get("note", ""),
        sorted(artefacts.items()),
    )


def _value(value: Any, artefacts: dict[str, str]) -> Value:
    if value is None:
        return Value("")
    if isinstance(value, dict) and set(value) == {"file"}:
        return Value(f"the file {value['file']}", sha=artefacts.get(value["file"], ""))
    if isinstance(value, dict) and value.get("type") == "directory" and "children" in value:
        inside = ", ".join(_paths(value)) or "nothing"
        text = f"{value.get('name', 'the folder')} with {inside}"
        return Value(_cut(text), json.dumps(value, indent=2, ensure_ascii=False))
    if isinstance(value, dict) and any(isinstance(one, list) for one in value.values()):
        text = "; ".join(f"{name}: {_listed(one)}" for name, one in value.items())
        return Value(_cut(text), json.dumps(value, indent=2, ensure_ascii=False))
    if (
        isinstance(value, dict)
        and value
        and all(isinstance(one, str | int | float) for one in value.values())
    ):
        text = ", ".join(f"{name} {one}" for name, one in value.items())
    else:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) <= LONG:
        return Value(text)
    whole = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return Value(_cut(text), whole)


def _cut(text: str) -> str:
    return text if len(text) <= LONG else f"{text[: LONG - 1]}…"


def _paths(folder: dict[str, Any], above: str = "") -> list[str]:
    """What is in a folder that was listed, one path each; an empty folder within ends in a slash."""
    found: list[str] = []
    for child in folder["children"]:
        name = f"{above}{child.get('name', '')}"
        if child.get("type") == "directory":
            found += _paths({"children": [], **child}, f"{name}/") or [f"{name}/"]
        else:
            found.append(name)
    return found


def _listed(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(
            one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in value
        )
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _wanted(check: Check) -> Value:
    """What the task's own document asks for, as its page says it."""
    said = readable.check(check)
    line = said["expected"]
    if line is None:
        return Value(said["options"])
    return Value(
        line.detail if check.expected and check.expected.type == "rule" else f"{line.words}: {line.detail}"
    )
