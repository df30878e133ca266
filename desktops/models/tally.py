"""How many computers a group (a run, …) has had, kept by a trigger on the computers themselves."""

from __future__ import annotations

from django.db import models

from .worker import Worker


class ComputerTally(models.Model):
    """Per group and worker. Nobody writes these rows; `manage.py check_totals` compares them with the computers."""

    group = models.UUIDField()
    worker = models.ForeignKey(Worker, on_delete=models.CASCADE, related_name="+")
    started = models.IntegerField(default=0)
    stopped = models.IntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["group", "worker"], name="computer_tally_once")]
        verbose_name_plural = "computer tallies"

    def __str__(self) -> str:
        return f"{self.started} started, {self.stopped} stopped"
