"""The log of a run: append-only rows, one sequence a run, which feeds the page and the stream alike."""

from __future__ import annotations

from django.db import models

from .run import Run


class Event(models.Model):
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    kind = models.CharField(max_length=40)
    version = models.PositiveSmallIntegerField(default=1)
    attempt_number = models.PositiveIntegerField(null=True, blank=True)
    data = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="event_seq_once")]
        indexes = [
            models.Index(fields=["run", "kind", "seq"]),
            models.Index(fields=["run", "attempt_number", "seq"], name="event_of_attempt"),
        ]
        ordering = ["seq"]

    def __str__(self) -> str:
        return f"{self.seq} {self.kind}"
