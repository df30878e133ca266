"""What lists of runs, attempts, events and tasks can be asked for. A value that cannot be is a 422."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import QuerySet
from django_filters import rest_framework as filters

from console.api.filters import AnyOf, OneOf
from desktops.models import TemplateVersion
from runs.events import KINDS
from runs.models import Attempt, Event, Run, Task

MOST = 2_147_483_647


class WholeNumber(filters.NumberFilter):
    field_class = forms.IntegerField


class YesOrNoField(forms.NullBooleanField):
    """Like its base, which takes what it cannot read for no answer."""

    def to_python(self, value: Any) -> bool | None:  # type: ignore[override]  # the base's answer has None too
        read: bool | None = super().to_python(value)
        if read is None and value not in self.empty_values:
            raise forms.ValidationError("Must be true or false.", code="invalid")
        return read


class YesOrNo(filters.BooleanFilter):
    field_class = YesOrNoField


class RunFilters(filters.FilterSet):
    status = AnyOf(choices=Run.Status.choices)
    kind = OneOf(choices=Run.Kind.choices)
    stop_reason = OneOf(choices=Run.StopReason.choices)
    name = filters.CharFilter(lookup_expr="icontains", help_text="A part of the name.")
    number = WholeNumber(min_value=1, max_value=MOST)

    class Meta:
        model = Run
        fields: list[str] = []


class AttemptFilters(filters.FilterSet):
    status = AnyOf(choices=Attempt.Status.choices)
    verifier = OneOf(choices=Attempt.Verifier.choices)
    outcome = OneOf(
        choices=Attempt.Outcome.choices, null_label="none", null_value="none", help_text="none: no verdict."
    )
    task = filters.CharFilter(field_name="task__task_id")
    round = WholeNumber(min_value=1, max_value=MOST)

    class Meta:
        model = Attempt
        fields: list[str] = []


class EventFilters(filters.FilterSet):
    after = WholeNumber(
        field_name="seq", lookup_expr="gt", min_value=0, max_value=2**62, help_text="Only what came later."
    )
    kind = AnyOf(choices=[(kind, kind) for kind in KINDS])
    attempt = WholeNumber(field_name="attempt_number", min_value=1, max_value=MOST)

    class Meta:
        model = Event
        fields: list[str] = []


class TaskFilters(filters.FilterSet):
    has_recipe = YesOrNo(field_name="recipe_known", widget=forms.TextInput)
    app = filters.CharFilter(method="filter_app", help_text="Tasks that use this application.")
    template = filters.CharFilter(method="filter_template", help_text="Tasks this template can run.")

    class Meta:
        model = Task
        fields: list[str] = []

    def filter_app(self, tasks: QuerySet[Task], name: str, value: Any) -> QuerySet[Task]:
        return tasks.filter(related_apps__contains=[value])

    def filter_template(self, tasks: QuerySet[Task], name: str, value: Any) -> QuerySet[Task]:
        """On one that was made from a desktop runs what runs on the template of that desktop."""
        versions = TemplateVersion.objects.filter(
            template__workspace=self.request.workspace, template__name=value
        )
        families = [version.family for version in versions.select_related("template", "base__template")]
        return tasks.filter(templates__overlap=sorted({value}.union(*families)))
