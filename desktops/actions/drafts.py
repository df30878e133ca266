"""Drafts of template versions go without a trace; what is published stays."""

from __future__ import annotations

from desktops.models import TemplateVersion


def drop(draft: TemplateVersion) -> None:
    """Its template goes too, if it has no other version."""
    template = draft.template
    draft.delete()
    if not template.versions.exists():
        template.delete()
