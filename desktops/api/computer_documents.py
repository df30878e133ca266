"""Computers as the API shows them."""

from __future__ import annotations

from decimal import Decimal

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.api.views import Money, dollars
from desktops.actions.holds import cost_so_far
from desktops.models import Ask, Hold


class AskSerializer(serializers.ModelSerializer[Ask]):
    state = serializers.UUIDField(
        source="state_id", allow_null=True, help_text="The saved desktop that came of it."
    )
    template = serializers.SerializerMethodField(help_text="The draft that it is for.")
    error = serializers.SerializerMethodField(help_text="Why it could not be done.")

    class Meta:
        model = Ask
        fields = ["id", "what", "status", "label", "state", "template", "error", "asked_at", "answered_at"]
        read_only_fields = fields

    @extend_schema_field({"type": "string", "nullable": True})
    def get_template(self, ask: Ask) -> str | None:
        return str(ask.template_version) if ask.template_version else None

    @extend_schema_field({"type": "string", "nullable": True})
    def get_error(self, ask: Ask) -> str | None:
        return ask.error or None


class ComputerSerializer(serializers.ModelSerializer[Hold]):
    label = serializers.CharField(  # type: ignore[assignment]
        allow_null=True, help_text="Of its desktop, such as c-0001; null until there is one."
    )
    template = serializers.CharField(source="template_version.__str__")
    state = serializers.UUIDField(
        source="state_id", allow_null=True, help_text="The saved desktop that it starts from."
    )
    worker = serializers.CharField(source="assignment.worker.name", default=None, allow_null=True)
    spend_cap_usd = Money(source="budget.cap")
    spent_usd = serializers.SerializerMethodField(help_text="Up to now, while it is there.")
    opened_by = serializers.CharField(source="opened_via")
    ready_at = serializers.DateTimeField(source="computer.ready_at", default=None, allow_null=True)
    closes_at = serializers.DateTimeField(allow_null=True, help_text="At the latest.")
    idle_at = serializers.DateTimeField(allow_null=True, help_text="When it closes unless it is used before.")
    stop_reason = serializers.SerializerMethodField()
    detail = serializers.SerializerMethodField(help_text="A sentence, where there is more to say.")

    class Meta:
        model = Hold
        fields = [
            "id",
            "label",
            "status",
            "template",
            "state",
            "worker",
            "idle_minutes",
            "max_minutes",
            "spend_cap_usd",
            "spent_usd",
            "opened_by",
            "created_at",
            "started_at",
            "ready_at",
            "last_used_at",
            "idle_at",
            "closes_at",
            "ended_at",
            "stop_reason",
            "detail",
        ]
        read_only_fields = fields

    @extend_schema_field(Money)
    def get_spent_usd(self, hold: Hold) -> str:
        return dollars(cost_so_far(hold) or Decimal(0))

    @extend_schema_field({"type": "string", "nullable": True, "enum": [*Hold.Reason.values, None]})
    def get_stop_reason(self, hold: Hold) -> str | None:
        return hold.stop_reason or None

    @extend_schema_field({"type": "string", "nullable": True})
    def get_detail(self, hold: Hold) -> str | None:
        return hold.detail or None


class ComputerDetailSerializer(ComputerSerializer):
    asks = serializers.SerializerMethodField()

    class Meta(ComputerSerializer.Meta):
        fields = [*ComputerSerializer.Meta.fields, "asks"]
        read_only_fields = fields

    @extend_schema_field(AskSerializer(many=True))
    def get_asks(self, hold: Hold) -> list[object]:
        asked = hold.asks.select_related("template_version__template")
        return list(AskSerializer(asked.order_by("-asked_at")[:50], many=True).data)
