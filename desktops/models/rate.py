"""What a desktop of a template costs on one worker, where that is not what the template version says."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from django.db import models
from django.db.models import Q

from console.models.budget import money_field

from .template import Template
from .worker import Worker

# Dollars an hour. A desktop that costs nothing would never meet a cap.
LOWEST_RATE: Final = Decimal("0.0001")


class WorkerRate(models.Model):
    """Overrides the rate of every version of the template on this worker. Read when a desktop is offered: what
    runs keeps the rate it began with."""

    template = models.ForeignKey(Template, on_delete=models.CASCADE, related_name="worker_rates")
    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="rates")
    rate_usd_per_hour = money_field()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["template", "worker"], name="worker_rate_once"),
            models.CheckConstraint(
                condition=Q(rate_usd_per_hour__gte=LOWEST_RATE), name="worker_rate_not_nothing"
            ),
        ]
        ordering = ["template__name", "worker__name"]

    def __str__(self) -> str:
        return f"{self.template} on {self.worker}: ${self.rate_usd_per_hour} an hour"
