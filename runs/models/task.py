"""Task sets: versioned, content-addressed lists of tasks in OSWorld's JSON format."""

from __future__ import annotations

from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from console.models import Workspace, WorkspaceRowQuerySet


class TaskSetQuerySet(WorkspaceRowQuerySet):
    def current(self) -> Self:
        """The newest version of each name: what a run document's `task_set` means."""
        return self.filter(is_current=True)


class TaskSet(models.Model):
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="task_sets")
    name = models.SlugField(max_length=50)
    version = models.PositiveIntegerField(default=1)
    is_current = models.BooleanField(default=True)
    title = models.CharField(max_length=100)
    description = models.TextField(blank=True)
    digest = models.CharField(max_length=71, help_text="sha256:… over the tasks' canonical JSON")
    source = models.CharField(max_length=200, blank=True)
    licence = models.CharField(max_length=100, blank=True)
    refused = models.JSONField(default=list, help_text="Files that cannot run here: file, code, reason.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = TaskSetQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "name", "version"], name="task_set_version_once"),
            models.UniqueConstraint(
                fields=["workspace", "name"], condition=Q(is_current=True), name="task_set_one_current"
            ),
        ]
        ordering = ["name", "-version"]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


class Task(models.Model):
    task_set = models.ForeignKey(TaskSet, on_delete=models.CASCADE, related_name="tasks")
    task_id = models.CharField(max_length=100)
    position = models.PositiveIntegerField()
    title = models.CharField(max_length=120, help_text="A few words for tables.")
    instruction = models.TextField()
    related_apps = ArrayField(models.CharField(max_length=50), default=list)
    templates = ArrayField(
        models.CharField(max_length=50), default=list, help_text="Templates that have its apps."
    )
    document = models.JSONField(help_text="The task, cleaned, in OSWorld's format.")
    digest = models.CharField(max_length=71)
    recipe = models.JSONField(null=True, blank=True, help_text="Actions that solve it; null: none known.")
    recipe_digest = models.CharField(max_length=71, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task_set", "task_id"], name="task_once")]
        ordering = ["position"]

    def __str__(self) -> str:
        return self.task_id

    @property
    def has_recipe(self) -> bool:
        return self.recipe is not None
