"""Runs and what they are made of, for platform staff. Nothing of it changes here but by the verb that stops a run."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from console.actor import Actor
from console.admin import ReadOnlyAdmin

from .actions.stop import NotCancellable, cancel_run
from .models import (
    Attempt,
    AttemptTry,
    Event,
    NoVerdict,
    Prefix,
    PrefixTry,
    ReasonTally,
    Run,
    RunDraft,
    RunSweep,
    Step,
    Task,
    TaskSet,
    TaskTally,
)


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = (
        "__str__",
        "workspace",
        "kind",
        "status",
        "stop_reason",
        "planned",
        "done",
        "error",
        "created_at",
    )
    list_filter = ("status", "stop_reason", "kind", "workspace")
    search_fields = ("name", "id")
    list_select_related = ("workspace",)
    date_hierarchy = "created_at"
    actions = ("cancel_as_operator",)

    @admin.action(description="Cancel as operator")
    def cancel_as_operator(self, request: HttpRequest, queryset: QuerySet[Run]) -> None:
        """Stops each chosen run; one that has ended already is named and left alone."""
        actor, ended = Actor.operator(request.user), []  # type: ignore[arg-type]
        cancelled = 0
        for run in queryset.order_by("pk"):
            try:
                cancel_run(run, actor=actor)
            except NotCancellable:
                ended.append(str(run))
            else:
                cancelled += 1
        if cancelled:
            messages.success(request, f"{cancelled} told to stop.")
        if ended:
            messages.warning(request, f"Ended already: {', '.join(ended)}.")


@admin.register(Attempt)
class AttemptAdmin(ReadOnlyAdmin):
    list_display = ("number", "run", "task", "status", "verifier", "outcome", "reward", "tries", "ended_at")
    list_filter = ("status", "verifier", "outcome")
    search_fields = ("id", "run__name")
    list_select_related = ("run", "task")
    show_full_result_count = False


@admin.register(AttemptTry)
class AttemptTryAdmin(ReadOnlyAdmin):
    list_display = ("attempt", "number", "ok", "computer", "started_at", "ended_at", "invalid_reasons")
    list_select_related = ("attempt__run", "computer")
    show_full_result_count = False


@admin.register(Prefix)
class PrefixAdmin(ReadOnlyAdmin):
    list_display = ("number", "run", "task", "status", "steps", "tries", "state", "worker", "ended_at")
    list_filter = ("status",)
    search_fields = ("id", "run__name")
    list_select_related = ("run", "task", "state", "worker")
    show_full_result_count = False


@admin.register(PrefixTry)
class PrefixTryAdmin(ReadOnlyAdmin):
    list_display = ("prefix", "number", "ok", "computer", "started_at", "ended_at", "invalid_reasons")
    list_select_related = ("prefix__run", "computer")
    show_full_result_count = False


@admin.register(Step)
class StepAdmin(ReadOnlyAdmin):
    list_display = ("attempt_try", "prefix_try", "number", "action", "settled", "at")
    list_select_related = ("attempt_try__attempt__run", "prefix_try__prefix__run")
    show_full_result_count = False


@admin.register(Event)
class EventAdmin(ReadOnlyAdmin):
    list_display = ("run", "seq", "kind", "attempt_number", "at")
    list_filter = ("kind",)
    list_select_related = ("run",)
    show_full_result_count = False


@admin.register(TaskSet)
class TaskSetAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "workspace", "is_current", "source", "licence", "created_at")
    list_filter = ("is_current", "workspace")
    list_select_related = ("workspace",)


@admin.register(Task)
class TaskAdmin(ReadOnlyAdmin):
    list_display = ("task_id", "title", "task_set", "related_apps", "templates", "has_recipe")
    search_fields = ("task_id", "title", "instruction")
    list_filter = ("task_set",)
    list_select_related = ("task_set",)

    @admin.display(boolean=True)
    def has_recipe(self, task: Task) -> bool:
        return task.has_recipe


@admin.register(RunDraft)
class RunDraftAdmin(ReadOnlyAdmin):
    list_display = ("user", "workspace", "saved_at")
    list_select_related = ("user", "workspace")


@admin.register(RunSweep)
class RunSweepAdmin(ReadOnlyAdmin):
    list_display = ("run", "worker", "after", "swept_at", "left")
    list_select_related = ("run", "worker")
    show_full_result_count = False


admin.site.register([TaskTally, ReasonTally, NoVerdict], ReadOnlyAdmin)
