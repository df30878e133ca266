"""That a worker looked for desktops that nobody owns after it had played a run: what the run's receipt rests on."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from desktops.models import Worker

from .run import Run


class RunSweep(models.Model):
    """A worker that played a run which has ended. Filled in by the first sweep after its last desktop of the run."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="sweeps", db_index=False)
    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="+")
    after = models.DateTimeField(help_text="When its last desktop of the run was gone, by its own clock.")
    swept_at = models.DateTimeField(null=True, blank=True, help_text="By its own clock.")
    left = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="Desktops that nobody owned and that could not be removed."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "worker"], name="run_sweep_once"),
            models.CheckConstraint(
                condition=Q(swept_at=None, left=None) | Q(swept_at__gt=models.F("after"), left__isnull=False),
                name="run_sweep_is_after",
            ),
        ]
        indexes = [models.Index(fields=["worker"], condition=Q(swept_at=None), name="run_sweep_awaited")]

    def __str__(self) -> str:
        return f"{self.worker} after {self.run}"
