"""A published version as an order names it."""

from __future__ import annotations

from desktops.models import TemplateVersion
from desktops.protocol.attempt import TemplatePin


def pin(version: TemplateVersion) -> TemplatePin:
    """Of a version whose template is loaded."""
    return TemplatePin(
        name=version.template.name,
        version=version.version,
        digest=version.digest,
        egress=version.egress,  # type: ignore[arg-type]
        memory_mb=version.memory_mb,
        cpus=float(version.cpus),
    )
