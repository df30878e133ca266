"""What can be opened, and what an hour of it costs where it is."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from console.models import Workspace
from desktops.models import TemplateVersion, Worker, WorkerRate


@dataclass(frozen=True)
class Offer:
    """A published version, and dollars an hour on the connected workers that have it; none: nobody has it now."""

    version: TemplateVersion
    rates: tuple[Decimal, ...]

    @property
    def low(self) -> Decimal:
        return min(self.rates, default=self.version.rate_usd_per_hour)

    @property
    def high(self) -> Decimal:
        return max(self.rates, default=self.version.rate_usd_per_hour)


def offers(workspace: Workspace) -> list[Offer]:
    """By name, the newest version of each first. Three queries."""
    versions = TemplateVersion.objects.filter(
        template__workspace=workspace, status=TemplateVersion.Status.PUBLISHED
    ).select_related("template")
    workers = list(Worker.objects.for_workspace(workspace).filter(paused=False).connected())
    rates = WorkerRate.objects.filter(worker__in=workers)
    own = {(row.worker_id, row.template_id): row.rate_usd_per_hour for row in rates}
    return [
        Offer(
            version,
            tuple(
                own.get((worker.pk, version.template_id), version.rate_usd_per_hour)
                for worker in workers
                if worker.has_image(version.template.name, version.digest)
            ),
        )
        for version in versions
    ]
