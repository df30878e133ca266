"""Runs, attempts, steps, events and task sets as the API shows them. Figures come from `runs.scoring` alone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils import timezone
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.api.views import Money, dollars
from runs import scoring
from runs.models import Attempt, AttemptTry, Event, Run, Step, Task, TaskSet
from runs.pages.forecast import Forecast, forecast
from runs.receipt import Receipt, receipt
from runs.spec import RunSpecSerializer


class NullWhenEmpty(serializers.CharField):
    """Text that the database keeps as "" when there is none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(read_only=True, allow_null=True, **options)

    def to_representation(self, value: str) -> str | None:  # type: ignore[override]
        return value or None


class CountsSerializer(serializers.Serializer[scoring.Counts]):
    """planned = queued + running + verifying + done + error + cancelled = valid + invalid + not_checked;
    valid = success + fail."""

    planned = serializers.IntegerField()
    queued = serializers.IntegerField()
    running = serializers.IntegerField()
    verifying = serializers.IntegerField()
    done = serializers.IntegerField()
    error = serializers.IntegerField()
    cancelled = serializers.IntegerField()
    valid = serializers.IntegerField()
    invalid = serializers.IntegerField()
    not_checked = serializers.IntegerField()
    success = serializers.IntegerField()
    fail = serializers.IntegerField()  # type: ignore[assignment]  # DRF takes declared fields off the class


class CostSerializer(serializers.Serializer[scoring.Cost]):
    """Measured compute cost. spent + reserved + left = cap, the one in force.

    spent: settled, of desktops that are gone; what one that runs has cost so far is a part of reserved."""

    cap_usd = Money()
    spent_usd = Money()
    reserved_usd = Money()
    left_usd = Money()


class CapsInForceSerializer(serializers.Serializer[scoring.Caps]):
    """They may be raised and lowered while the run is going; `spec` keeps those it was created with."""

    spend_cap_usd = Money()
    time_cap_minutes = serializers.IntegerField()


class RunSerializer(serializers.ModelSerializer[Run]):
    url = serializers.SerializerMethodField(help_text="The run's page.")
    stop_reason = NullWhenEmpty()
    stop_detail = NullWhenEmpty()
    spec = serializers.SerializerMethodField(help_text="The document as it was accepted, defaults filled in.")
    caps = serializers.SerializerMethodField(help_text="The caps in force.")
    counts = serializers.SerializerMethodField()
    cost = serializers.SerializerMethodField()

    class Meta:
        model = Run
        fields = [
            "id",
            "number",
            "url",
            "name",
            "kind",
            "status",
            "stop_reason",
            "stop_detail",
            "spec",
            "caps",
            "counts",
            "cost",
            "created_at",
            "started_at",
            "ended_at",
        ]
        read_only_fields = fields

    @extend_schema_field({"type": "string", "format": "uri"})
    def get_url(self, run: Run) -> str:
        return page_of(run)

    @extend_schema_field(RunSpecSerializer)
    def get_spec(self, run: Run) -> dict[str, Any]:
        spec: dict[str, Any] = run.spec
        return spec

    @extend_schema_field(CapsInForceSerializer)
    def get_caps(self, run: Run) -> dict[str, Any]:
        return dict(CapsInForceSerializer(scoring.caps(run)).data)

    @extend_schema_field(CountsSerializer)
    def get_counts(self, run: Run) -> dict[str, Any]:
        return dict(CountsSerializer(scoring.counts(run)).data)

    @extend_schema_field(CostSerializer)
    def get_cost(self, run: Run) -> dict[str, Any]:
        return dict(CostSerializer(scoring.cost(run)).data)


class RunForecastSerializer(serializers.Serializer[Any]):
    """From the run's own pace so far: when it stops, what stops it, and what it will have cost."""

    stops_at = serializers.DateTimeField()
    stops_for = serializers.ChoiceField(choices=["all", "valid", "time", "spend"], source="first.name")
    cost_usd = serializers.SerializerMethodField()

    @extend_schema_field(Money)
    def get_cost_usd(self, coming: Forecast) -> str:
        return dollars(Decimal(coming.cost))


class ReceiptSerializer(serializers.Serializer[Receipt]):
    """`clean`: all that was started is stopped and paid, and each worker has looked for leftovers since."""

    started = serializers.IntegerField()
    stopped = serializers.IntegerField()
    swept_at = serializers.DateTimeField(allow_null=True)
    left = serializers.IntegerField()
    clean = serializers.BooleanField()


class RunDetailSerializer(RunSerializer):
    """One run, with its forecast while it goes on and its receipt once it has ended."""

    forecast = serializers.SerializerMethodField(help_text="Null before the first result and after the end.")
    receipt = serializers.SerializerMethodField(help_text="Null until it has ended.")

    class Meta(RunSerializer.Meta):
        fields = [*RunSerializer.Meta.fields, "forecast", "receipt"]
        read_only_fields = fields

    @extend_schema_field(RunForecastSerializer(allow_null=True))
    def get_forecast(self, run: Run) -> dict[str, Any] | None:
        coming = forecast(run, timezone.now())
        return dict(RunForecastSerializer(coming).data) if coming else None

    @extend_schema_field(ReceiptSerializer(allow_null=True))
    def get_receipt(self, run: Run) -> dict[str, Any] | None:
        return dict(ReceiptSerializer(receipt(run)).data) if run.is_terminal else None


def page_of(run: Run) -> str:
    path = reverse("run", kwargs={"workspace": run.workspace.slug, "number": run.number})
    return f"{settings.PUBLIC_URL}{path}"


class AttemptSerializer(serializers.ModelSerializer[Attempt]):
    run = serializers.UUIDField(source="run_id")
    task = serializers.CharField(source="task.task_id")
    fork_method = NullWhenEmpty(
        help_text="live: restored from the saved desktop; replay: prefix played again."
    )
    prefix = serializers.UUIDField(
        source="prefix_id",
        allow_null=True,
        help_text="The prefix that its group shares, where one was played.",
    )
    outcome = serializers.ChoiceField(choices=Attempt.Outcome.choices, allow_null=True, read_only=True)
    checker_error = NullWhenEmpty()
    duration_seconds = serializers.FloatField(
        allow_null=True,
        help_text="From its first start to its end, further tries and the wait for them included.",
    )
    computer = serializers.CharField(source="computer.label", default=None, allow_null=True)
    computer_id = serializers.UUIDField(allow_null=True)
    worker = serializers.CharField(source="worker.name", default=None, allow_null=True)

    class Meta:
        model = Attempt
        fields = [
            "id",
            "run",
            "number",
            "task",
            "round",
            "copy",
            "fork",
            "fork_method",
            "prefix",
            "status",
            "verifier",
            "outcome",
            "reward",
            "invalid_reasons",
            "checker_error",
            "steps",
            "duration_seconds",
            "computer",
            "computer_id",
            "worker",
            "tries",
            "started_at",
            "ended_at",
        ]
        read_only_fields = fields


class TrySerializer(serializers.ModelSerializer[AttemptTry]):
    checker_error = NullWhenEmpty()
    detail = NullWhenEmpty()
    computer = serializers.CharField(source="computer.label", default=None, allow_null=True)
    from_state = NullWhenEmpty(help_text="Name of the saved desktop it started from, on its worker.")
    from_digest = NullWhenEmpty(help_text="Digest of that desktop.")
    setup_screenshot = serializers.SerializerMethodField(help_text="What the screen showed after the setup.")
    verdict = serializers.SerializerMethodField(help_text="The checker's word with all its evidence.")

    class Meta:
        model = AttemptTry
        fields = [
            "number",
            "started_at",
            "ended_at",
            "ok",
            "invalid_reasons",
            "checker_error",
            "detail",
            "reward",
            "computer",
            "setup_seconds",
            "setup_screenshot",
            "from_state",
            "from_digest",
            "verdict",
        ]
        read_only_fields = fields

    @extend_schema_field({"type": "string", "format": "uri", "nullable": True})
    def get_setup_screenshot(self, row: AttemptTry) -> str | None:
        if not row.setup_screenshot:
            return None
        path = reverse("api-blob", kwargs={"sha256": row.setup_screenshot})
        return str(self.context["request"].build_absolute_uri(path))

    @extend_schema_field({"type": "object", "nullable": True})
    def get_verdict(self, row: AttemptTry) -> dict[str, Any] | None:
        verdict: dict[str, Any] | None = row.verdict
        return verdict


class AttemptDetailSerializer(AttemptSerializer):
    """One attempt with all its tries, also those that an infrastructure fault ended."""

    all_tries = TrySerializer(many=True, source="try_rows")

    class Meta(AttemptSerializer.Meta):
        fields = [*AttemptSerializer.Meta.fields, "all_tries"]
        read_only_fields = fields


class StepSerializer(serializers.ModelSerializer[Step]):
    action = serializers.SerializerMethodField(help_text="One of the action vocabulary.")
    took_ms = serializers.FloatField()
    screenshot = serializers.SerializerMethodField(help_text="What the screen showed after it: a PNG.")
    error = NullWhenEmpty()

    class Meta:
        model = Step
        fields = [
            "number",
            "at",
            "action",
            "prefix",
            "policy_ms",
            "act_ms",
            "settle_ms",
            "grab_ms",
            "took_ms",
            "settled",
            "active_window",
            "error",
            "screenshot",
        ]
        read_only_fields = fields

    @extend_schema_field({"type": "object"})
    def get_action(self, step: Step) -> dict[str, Any]:
        action: dict[str, Any] = step.action
        return action

    @extend_schema_field({"type": "string", "format": "uri"})
    def get_screenshot(self, step: Step) -> str:
        attempt_try: AttemptTry = self.context["attempt_try"]
        path = reverse("api-step-screenshot", kwargs={"id": attempt_try.attempt_id, "number": step.number})
        return str(self.context["request"].build_absolute_uri(f"{path}?try={attempt_try.number}"))


class EventSerializer(serializers.ModelSerializer[Event]):
    attempt = serializers.IntegerField(source="attempt_number", allow_null=True, help_text="Its number.")
    data = serializers.SerializerMethodField(  # type: ignore[assignment]  # DRF takes it off the class
        help_text="As `kind` and `version` say."
    )

    class Meta:
        model = Event
        fields = ["seq", "at", "kind", "version", "attempt", "data"]
        read_only_fields = fields

    @extend_schema_field({"type": "object"})
    def get_data(self, event: Event) -> dict[str, Any]:
        data: dict[str, Any] = event.data
        return data


class TaskSetSerializer(serializers.ModelSerializer[TaskSet]):
    tasks = serializers.IntegerField(source="task_count")
    recipes = serializers.IntegerField(source="recipe_count", help_text="Tasks that have a recipe.")

    class Meta:
        model = TaskSet
        fields = [
            "name",
            "version",
            "title",
            "description",
            "digest",
            "source",
            "licence",
            "tasks",
            "recipes",
            "created_at",
        ]
        read_only_fields = fields


class TaskSerializer(serializers.ModelSerializer[Task]):
    id = serializers.CharField(source="task_id")
    has_recipe = serializers.BooleanField(source="recipe_known")

    class Meta:
        model = Task
        fields = ["id", "title", "instruction", "related_apps", "has_recipe", "templates", "digest"]
        read_only_fields = fields


class EnvelopeSignatureSerializer(serializers.Serializer[dict[str, str]]):
    keyid = serializers.CharField()
    sig = serializers.CharField(help_text="Base64.")


class EnvelopeSerializer(serializers.Serializer[dict[str, Any]]):
    """A DSSE envelope; the payload is an in-toto statement."""

    payload = serializers.CharField(help_text="Base64 of the statement's JSON.")
    payloadType = serializers.CharField()
    signatures = EnvelopeSignatureSerializer(many=True)
