"""Search or jump: what somebody types finds runs, attempts, pages and tasks. The list narrows while they type; Enter
goes to its first entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Q
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from console.context import Shell
from console.pages.loaders import WorkspaceRequest, workspace_page
from console.templatetags.deskyard import task_name
from runs.models import Run, Task, TaskSet

MOST = 6  # of each kind
WORDS_LENGTH = 200


@dataclass(frozen=True)
class Found:
    href: str
    word: str
    icon: str
    what: str = ""


@require_safe
@workspace_page
def jump(request: WorkspaceRequest) -> HttpResponse:
    words = request.GET.get("q", "").strip()[:WORDS_LENGTH]
    entries = list(_entries(request, words))
    if request.headers.get("HX-Request") == "true":
        reply = render(request, "shared/hunt_list.html", {"entries": entries})
    else:
        reply = HttpResponseRedirect(entries[0].href)
    reply["Vary"] = "HX-Request, Cookie"
    return reply


def _entries(request: WorkspaceRequest, words: str) -> Iterator[Found]:
    """The best first. The search in the names of runs comes last, and is always there once something is typed."""
    yield from _numbered(request, words)
    yield from _pages(request, words)
    if not words:
        return
    slug = request.workspace.slug
    current = TaskSet.objects.for_workspace(request.workspace).current()
    tasks = Task.objects.filter(task_set__in=current).select_related("task_set")
    for word in words.split()[:10]:
        tasks = tasks.filter(Q(task_id__icontains=word) | Q(title__icontains=word))
    for task in tasks.defer("document", "recipe").order_by("task_set__name", "position")[:MOST]:
        address = reverse("task", args=[slug, task.task_set.name, task.task_id])
        yield Found(address, task_name(task), "list-checks", f"task of {task.task_set.name}")
    runs = Run.objects.for_workspace(request.workspace).filter(name__icontains=words).order_by("-number")
    for number, name in runs.values_list("number", "name")[:MOST]:
        yield Found(reverse("run", args=[slug, number]), name, "play", f"run #{number}")
    yield Found(
        f"{reverse('run-list', args=[slug])}?{urlencode({'q': words})}", f"Runs named “{words}”", "search"
    )


def _numbered(request: WorkspaceRequest, words: str) -> Iterator[Found]:
    """`128` or `#128` is a run, `128/81` an attempt of it."""
    number, slash, attempt = words.removeprefix("#").partition("/")
    if not (number.isdecimal() and len(number) < 10 and 0 < int(number) <= request.workspace.last_run_number):
        return
    run = [request.workspace.slug, int(number)]
    if slash and attempt.isdecimal() and len(attempt) < 10:
        yield Found(
            reverse("attempt", args=[*run, int(attempt)]), f"Attempt {attempt} of run #{number}", "play"
        )
    else:
        yield Found(reverse("run", args=run), f"Run #{number}", "play")


def _pages(request: WorkspaceRequest, words: str) -> Iterator[Found]:
    for _, links in Shell(request).groups:
        for link in links:
            if words.lower() in link.word.lower():
                yield Found(link.href, link.word, link.icon)
