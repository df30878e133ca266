"""The one check of what somebody wants to open. API and form ask here.

    {"template": "basic@1", "state": null, "idle_minutes": 15, "max_minutes": 60, "spend_cap_usd": "0.50"}

`template` or `state` (the id of a saved desktop), not both; the rest has defaults; every other key is refused.
"""

from __future__ import annotations

import re
from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from console.fields import Dollars, RangedInteger, StrictDocument, StrictString
from console.models import Workspace
from desktops import limits
from desktops.models import State, TemplateVersion


@extend_schema_serializer(
    examples=[
        OpenApiExample(
            "A desktop of a template",
            request_only=True,
            value={"template": "basic@1", "idle_minutes": 15, "max_minutes": 60, "spend_cap_usd": "0.50"},
        )
    ]
)
class OpeningSerializer(StrictDocument):
    """Validated, it also has `template_version` and `saved`: the rows that are named, of the context's workspace."""

    template = StrictString(
        required=False, allow_null=True, default=None, max_length=80, help_text="Published, such as basic@1."
    )
    state = serializers.UUIDField(
        required=False, allow_null=True, default=None, help_text="Of a saved desktop, in place of a template."
    )
    idle_minutes = RangedInteger(
        limits.IDLE_MINUTES,
        required=False,
        default=limits.IDLE_MINUTES.default,
        help_text="It closes when nobody has used it for so long.",
    )
    max_minutes = RangedInteger(
        limits.MAX_MINUTES,
        required=False,
        default=limits.MAX_MINUTES.default,
        help_text="It closes so long after it was handed to a worker, used or not.",
    )
    spend_cap_usd = Dollars(
        required=False, default=limits.SPEND_CAP, help_text="Its measured cost never passes it."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        workspace: Workspace = self.context["workspace"]
        template, state = attrs["template"], attrs["state"]
        if bool(template) == bool(state):
            asked = "Name a template or a saved desktop" + (", not both." if state else ".")
            raise _wrong("template", "template_or_state", asked)
        saved = _saved(workspace, state) if state else None
        version = saved.template_version if saved else _published(workspace, template)
        return {**attrs, "saved": saved, "template_version": version}


def _published(workspace: Workspace, named: str) -> TemplateVersion:
    name, _, number = named.partition("@")
    versions = TemplateVersion.objects.filter(template__workspace=workspace).select_related("template")
    version = None
    if re.fullmatch(r"[1-9][0-9]{0,8}", number, re.ASCII):
        version = versions.filter(template__name=name, version=int(number)).first()
    if version is None:
        raise _wrong("template", "unknown_template", "This workspace has no such template version.")
    if version.status != TemplateVersion.Status.PUBLISHED:
        what = f"{version} is {version.get_status_display().lower()}; only a published version can be opened."
        raise _wrong("template", "not_published", what)
    return version


def _saved(workspace: Workspace, pk: Any) -> State:
    states = State.objects.for_workspace(workspace).select_related("template_version__template")
    state: State | None = states.filter(pk=pk).first()
    if state is None:
        raise _wrong("state", "unknown_state", "This workspace has no such saved desktop.")
    if state.status != State.Status.HELD:
        raise _wrong("state", "state_gone", "This saved desktop has been deleted.")
    if state.template_version is None:
        raise _wrong("state", "state_unknown_image", "Nothing tells which template this saved desktop is of.")
    return state


def _wrong(field: str, code: str, message: str) -> serializers.ValidationError:
    return serializers.ValidationError({field: [ErrorDetail(message, code)]})
