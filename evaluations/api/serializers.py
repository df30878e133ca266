"""Evaluations, rollouts and reports as the API shows them. Figures come from `evaluations.report` alone."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from console.api.views import Money
from evaluations.models import Batch, Evaluation, Rollout, Verdict
from evaluations.report import Block, Comparison


class RolloutCountsSerializer(serializers.Serializer[Evaluation]):
    """total = pending + running + done + error; valid of those done, success of the valid."""

    total = serializers.IntegerField()
    pending = serializers.IntegerField()
    running = serializers.IntegerField()
    done = serializers.IntegerField()
    error = serializers.IntegerField()
    valid = serializers.IntegerField()
    success = serializers.IntegerField()
    memo_hits = serializers.IntegerField()


class BatchSerializer(serializers.ModelSerializer[Batch]):
    class Meta:
        model = Batch
        fields = [
            "number",
            "kind",
            "environment_digest",
            "judge",
            "policy",
            "profile",
            "memo",
            "repro_class",
            "labels",
            "document",
            "created_at",
        ]


class EvaluationSerializer(serializers.ModelSerializer[Evaluation]):
    mission = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True)
    counts = RolloutCountsSerializer(source="*")

    class Meta:
        model = Evaluation
        fields = ["id", "name", "status", "mission", "counts", "created_at", "sealed_at", "completed_at"]


class EvaluationDetailSerializer(EvaluationSerializer):
    batches = BatchSerializer(many=True)

    class Meta(EvaluationSerializer.Meta):
        fields = [*EvaluationSerializer.Meta.fields, "batches"]


class VerdictSerializer(serializers.ModelSerializer[Verdict]):
    class Meta:
        model = Verdict
        fields = ["judge", "digest", "reward", "evidence", "screenshot", "at"]


class RolloutSerializer(serializers.ModelSerializer[Rollout]):
    judge = serializers.CharField(source="batch.judge")
    batch = serializers.IntegerField(source="batch.number")
    memo_of = serializers.UUIDField(source="source_id", allow_null=True, help_text="Whose verdict it took.")
    billed = serializers.SerializerMethodField(help_text="False where the verdict was known already.")
    verdicts = VerdictSerializer(many=True)

    class Meta:
        model = Rollout
        fields = [
            "id",
            "number",
            "batch",
            "identity",
            "spec",
            "seed",
            "judge",
            "status",
            "verifier",
            "outcome",
            "reward",
            "invalid_reasons",
            "tries",
            "memo_of",
            "billed",
            "started_at",
            "ended_at",
            "verdicts",
        ]

    def get_billed(self, rollout: Rollout) -> bool:
        return rollout.source_id is None


class IntervalSerializer(serializers.Serializer[Any]):
    low = serializers.FloatField()
    high = serializers.FloatField()


class TallySerializer(serializers.Serializer[Any]):
    n = serializers.IntegerField()
    ended = serializers.IntegerField()
    valid = serializers.IntegerField()
    success = serializers.IntegerField()
    rate = serializers.FloatField(allow_null=True, help_text="Of the valid ones.")


class SpreadSerializer(serializers.Serializer[Any]):
    groups = serializers.IntegerField()
    lowest = serializers.FloatField(allow_null=True)
    highest = serializers.FloatField(allow_null=True)


class BlockSerializer(serializers.Serializer[Block]):
    judge = serializers.CharField()
    all = TallySerializer()
    coverage = serializers.FloatField(allow_null=True, help_text="Valid of those that have ended.")
    interval = IntervalSerializer(allow_null=True, help_text="Wilson's, 95 %.")
    tasks = serializers.DictField(child=TallySerializer())
    seeds = SpreadSerializer(help_text="Of the success rates by seed.")
    pass_at_k = serializers.DictField(
        child=serializers.FloatField(), help_text="Unbiased, mean over the tasks."
    )
    memo_hits = serializers.IntegerField()
    billed = serializers.IntegerField()
    cost_usd = Money(source="cost")


class DifferenceSerializer(serializers.Serializer[Any]):
    tasks = serializers.IntegerField(help_text="That both have.")
    mean = serializers.FloatField(help_text="Of the second minus the first.")
    interval = IntervalSerializer(allow_null=True, help_text="95 %, clustered by task.")
    conclusive = serializers.BooleanField()


class ComparisonSerializer(serializers.Serializer[Comparison]):
    judge = serializers.CharField()
    first = TallySerializer()
    second = TallySerializer()
    difference = DifferenceSerializer(allow_null=True)
    only_first = serializers.IntegerField(help_text="Tasks that the second has not.")
    only_second = serializers.IntegerField()


class ReportSerializer(serializers.Serializer[Any]):
    """A block for each judge, and no total over judges."""

    evaluation = serializers.CharField()
    status = serializers.CharField()
    judges = BlockSerializer(many=True)
    against = serializers.CharField(allow_null=True)
    comparisons = serializers.SerializerMethodField()

    @extend_schema_field(ComparisonSerializer(many=True))
    def get_comparisons(self, said: dict[str, Any]) -> Any:
        return ComparisonSerializer(said["comparisons"], many=True).data
