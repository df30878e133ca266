"""Templates, workers, computers and assignments for platform staff. Only rates and a template's words change here."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from console.actor import Actor
from console.admin import ReadOnlyAdmin, ReadOnlyInline, record_change

from .actions.rates import set_rate, set_worker_rate
from .actions.templates import retire_template
from .models import (
    Ask,
    Assignment,
    Computer,
    ComputerTally,
    DiscardedImage,
    Hold,
    LiveView,
    State,
    Template,
    TemplateVersion,
    Worker,
    WorkerRate,
)
from .models.rate import LOWEST_RATE


class VersionInline(ReadOnlyInline):
    model = TemplateVersion
    fields = ("version", "status", "digest", "rate_usd_per_hour", "published_at")


@admin.register(Template)
class TemplateAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "title", "workspace")
    list_filter = ("workspace",)
    list_select_related = ("workspace",)
    readonly_fields = ("workspace", "name", "apps")
    inlines = (VersionInline,)

    def save_model(self, request: HttpRequest, obj: Template, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        changed = {name: form.cleaned_data[name] for name in form.changed_data}
        record_change(request, "template.changed", obj.workspace, f"template {obj.name}", changed)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(TemplateVersion)
class TemplateVersionAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The rate may change; a desktop that runs keeps the rate it began with. The image never changes."""

    list_display = (
        "__str__",
        "workspace",
        "status",
        "rate_usd_per_hour",
        "memory_mb",
        "egress",
        "published_at",
    )
    list_editable = ("rate_usd_per_hour",)
    list_filter = ("status",)
    list_select_related = ("template__workspace",)
    actions = ("retire",)
    readonly_fields = (
        "template",
        "version",
        "status",
        "digest",
        "memory_mb",
        "cpus",
        "egress",
        "base",
        "made_by",
        "created_at",
        "published_at",
    )

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **options: Any) -> Any:
        if db_field.name == "rate_usd_per_hour":
            options["min_value"] = LOWEST_RATE
        return super().formfield_for_dbfield(db_field, request, **options)

    @admin.action(description="Retire: no new runs")
    def retire(self, request: HttpRequest, queryset: QuerySet[TemplateVersion]) -> None:
        """Runs of it that are still queued end as rejected; those that play go on."""
        actor = Actor.operator(request.user)  # type: ignore[arg-type]
        retired = [version for version in queryset.order_by("pk") if retire_template(version, actor=actor)]
        messages.success(request, f"Retired: {', '.join(map(str, retired)) or 'none'}.")

    @admin.display(ordering="template__workspace")
    def workspace(self, version: TemplateVersion) -> str:
        return str(version.template.workspace)

    def save_model(self, request: HttpRequest, obj: TemplateVersion, form: Any, change: bool) -> None:
        set_rate(obj, rate=obj.rate_usd_per_hour, actor=Actor.operator(request.user))  # type: ignore[arg-type]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class WorkerRateForm(forms.ModelForm):  # type: ignore[type-arg]
    rate_usd_per_hour = forms.DecimalField(
        min_value=LOWEST_RATE, max_digits=14, decimal_places=6, help_text="In place of each version's own."
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        template = cleaned.get("template") or getattr(self.instance, "template", None)
        worker = cleaned.get("worker") or getattr(self.instance, "worker", None)
        if template and worker and template.workspace_id != worker.workspace_id:
            raise forms.ValidationError("The template and the worker belong to different workspaces.")
        return cleaned


@admin.register(WorkerRate)
class WorkerRateAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """What a template costs on one worker. Each change goes through the verb that records it."""

    form = WorkerRateForm
    list_display = ("template", "worker", "workspace", "rate_usd_per_hour")
    list_filter = ("template__workspace",)
    list_select_related = ("template__workspace", "worker")

    @admin.display(ordering="template__workspace")
    def workspace(self, rate: WorkerRate) -> str:
        return str(rate.template.workspace)

    def get_readonly_fields(self, request: HttpRequest, obj: WorkerRate | None = None) -> tuple[str, ...]:
        return ("template", "worker") if obj else ()

    def save_model(self, request: HttpRequest, obj: WorkerRate, form: Any, change: bool) -> None:
        self._set(request, obj, obj.rate_usd_per_hour)
        # The verb wrote the row; what the admin does next (log, redirect) needs its key.
        obj.pk = WorkerRate.objects.values_list("pk", flat=True).get(template=obj.template, worker=obj.worker)

    def delete_model(self, request: HttpRequest, obj: WorkerRate) -> None:
        self._set(request, obj, None)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[WorkerRate]) -> None:
        for rate in queryset.select_related("template", "worker"):
            self._set(request, rate, None)

    def _set(self, request: HttpRequest, obj: WorkerRate, rate: Decimal | None) -> None:
        actor = Actor.operator(request.user)  # type: ignore[arg-type]
        set_worker_rate(template=obj.template, worker=obj.worker, rate=rate, actor=actor)


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ("name", "workspace", "connected", "paused", "engine", "slots", "can_fork", "last_seen_at")
    list_filter = ("connected", "paused", "engine")
    search_fields = ("name", "workspace__slug")
    list_select_related = ("workspace",)


@admin.register(Computer)
class ComputerAdmin(ReadOnlyAdmin):
    list_display = ("label", "workspace", "worker", "template_version", "purpose", "started_at", "stopped_at")
    list_filter = ("purpose", "engine")
    search_fields = ("id", "engine_ref")
    list_select_related = ("workspace", "worker", "template_version__template")
    show_full_result_count = False


@admin.register(Assignment)
class AssignmentAdmin(ReadOnlyAdmin):
    list_display = ("id", "kind", "worker", "status", "epoch", "lease_until", "paid_until", "offered_at")
    list_filter = ("kind", "status")
    search_fields = ("id", "subject")
    list_select_related = ("worker",)
    show_full_result_count = False


@admin.register(DiscardedImage)
class DiscardedImageAdmin(ReadOnlyAdmin):
    list_display = ("digest", "workspace", "discarded_at")
    search_fields = ("digest",)
    list_select_related = ("workspace",)


@admin.register(State)
class StateAdmin(ReadOnlyAdmin):
    list_display = ("name", "workspace", "worker", "origin", "status", "size_bytes", "made_at", "expires_at")
    list_filter = ("origin", "status")
    search_fields = ("id", "name", "label")
    list_select_related = ("workspace", "worker")
    show_full_result_count = False


@admin.register(Hold)
class HoldAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "workspace", "status", "stop_reason", "opened_via", "created_at", "ended_at")
    list_filter = ("status", "stop_reason")
    search_fields = ("id", "opened_via")
    list_select_related = ("workspace", "computer", "template_version__template")
    show_full_result_count = False


@admin.register(Ask)
class AskAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "hold", "label", "asked_by", "asked_at", "answered_at")
    list_filter = ("what", "status")
    search_fields = ("id", "label")
    list_select_related = ("hold__computer", "hold__template_version__template")
    show_full_result_count = False


@admin.register(LiveView)
class LiveViewAdmin(ReadOnlyAdmin):
    list_display = ("computer", "user", "workspace", "drives", "made_at", "opened_at", "ended_at")
    list_filter = ("drives",)
    list_select_related = ("computer", "user", "workspace")


admin.site.register(ComputerTally, ReadOnlyAdmin)
