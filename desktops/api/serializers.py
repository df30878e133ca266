"""Templates, workers and saved desktops as the API shows them."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.api.views import Money
from desktops.models import State, TemplateVersion, Worker


class TemplateVersionSerializer(serializers.ModelSerializer[TemplateVersion]):
    name = serializers.CharField(source="template.name")
    title = serializers.CharField(source="template.title")
    description = serializers.CharField(source="template.description")
    apps = serializers.ListField(child=serializers.CharField(), source="template.apps")
    digest = serializers.SerializerMethodField(help_text="Null while it is a draft.")
    rate_usd_per_hour = Money()

    class Meta:
        model = TemplateVersion
        fields = [
            "name",
            "version",
            "digest",
            "status",
            "rate_usd_per_hour",
            "title",
            "description",
            "apps",
            "memory_mb",
            "cpus",
            "egress",
            "published_at",
        ]
        read_only_fields = fields

    @extend_schema_field({"type": "string", "nullable": True})
    def get_digest(self, version: TemplateVersion) -> str | None:
        return version.digest or None


class WorkerSerializer(serializers.ModelSerializer[Worker]):
    connected = serializers.BooleanField(source="is_connected")
    held = serializers.IntegerField(help_text="Desktops it has now.")
    images = serializers.SerializerMethodField(help_text="Template images on the host.")

    class Meta:
        model = Worker
        fields = [
            "id",
            "name",
            "connected",
            "paused",
            "slots",
            "held",
            "engine",
            "engine_version",
            "isolation",
            "can_fork",
            "cannot_fork_because",
            "cpus",
            "memory_mb",
            "disk_free_mb",
            "states_bytes",
            "states_limit_mb",
            "ready_desktops",
            "images",
            "version",
            "last_seen_at",
            "left_at",
            "swept_at",
            "swept_left",
        ]
        read_only_fields = fields

    @extend_schema_field({"type": "array", "items": {"type": "object"}})
    def get_images(self, worker: Worker) -> OpenApiTypes:
        images: OpenApiTypes = worker.images
        return images


class StateSerializer(serializers.ModelSerializer[State]):
    name = serializers.CharField(help_text="The worker's name for it.")
    label = serializers.CharField(  # type: ignore[assignment]  # DRF takes declared fields off the class
        source="__str__", help_text="What a person reads."
    )
    worker = serializers.CharField(source="worker.name")
    template = serializers.SerializerMethodField(help_text="Name and version: `basic@1`.")
    digest = serializers.SerializerMethodField(help_text="Of its processes and what it had written.")
    parent = serializers.UUIDField(  # type: ignore[assignment]
        source="parent_id", allow_null=True, help_text="The saved desktop that it was started from."
    )
    computer = serializers.CharField(
        source="computer.label", default=None, allow_null=True, help_text="The desktop it was saved from."
    )
    made_by = serializers.SerializerMethodField(
        help_text="What played when it was saved: an attempt, a prefix; null where no record tells."
    )
    screenshot = serializers.SerializerMethodField(help_text="What its screen shows: a PNG.")
    expires_at = serializers.DateTimeField(
        allow_null=True, help_text="When it goes by itself, unless something needs it."
    )

    class Meta:
        model = State
        fields = [
            "id",
            "name",
            "origin",
            "status",
            "label",
            "worker",
            "template",
            "digest",
            "parent",
            "size_bytes",
            "computer",
            "made_by",
            "screenshot",
            "made_at",
            "used_at",
            "expires_at",
            "keep_days",
            "uses",
        ]
        read_only_fields = fields

    @extend_schema_field({"type": "string", "nullable": True})
    def get_template(self, state: State) -> str | None:
        return str(state.template_version) if state.template_version else None

    @extend_schema_field({"type": "string", "nullable": True})
    def get_digest(self, state: State) -> str | None:
        return state.digest or None

    @extend_schema_field(
        {
            "type": "object",
            "nullable": True,
            "required": ["kind", "id"],
            "properties": {"kind": {"type": "string"}, "id": {"type": "string", "format": "uuid"}},
        }
    )
    def get_made_by(self, state: State) -> dict[str, Any] | None:
        if state.computer is None:
            return None
        return {"kind": state.computer.assignment.kind, "id": str(state.computer.assignment.subject)}

    @extend_schema_field({"type": "string", "format": "uri", "nullable": True})
    def get_screenshot(self, state: State) -> str | None:
        if not state.screenshot:
            return None
        path = reverse("api-blob", kwargs={"sha256": state.screenshot})
        return str(self.context["request"].build_absolute_uri(path))


class StateDetailSerializer(StateSerializer):
    """With what needs it now."""

    needed_by = serializers.SerializerMethodField(help_text="In words; null: nothing, and it may be deleted.")

    class Meta(StateSerializer.Meta):
        fields = [*StateSerializer.Meta.fields, "needed_by"]
        read_only_fields = fields

    @extend_schema_field({"type": "string", "nullable": True})
    def get_needed_by(self, state: State) -> str | None:
        needed: dict[Any, str] = self.context["needed"]
        return needed.get(state.pk)
