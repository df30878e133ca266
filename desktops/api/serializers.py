"""Templates and workers as the API shows them."""

from __future__ import annotations

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.api.views import Money
from desktops.models import TemplateVersion, Worker


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
            "images",
            "version",
            "last_seen_at",
            "swept_at",
            "swept_left",
        ]
        read_only_fields = fields

    @extend_schema_field({"type": "array", "items": {"type": "object"}})
    def get_images(self, worker: Worker) -> OpenApiTypes:
        images: OpenApiTypes = worker.images
        return images
