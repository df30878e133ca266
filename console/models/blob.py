"""Content-addressed files: screenshots, evidence. One row a workspace and digest; the bytes lie once in storage."""

from __future__ import annotations

from django.core.files.storage import Storage, storages
from django.db import models
from django.db.models import Q

from .workspace import Workspace, WorkspaceRowQuerySet


class Blob(models.Model):
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="blobs")
    sha256 = models.CharField(max_length=64)
    size = models.PositiveIntegerField()
    content_type = models.CharField(max_length=100)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "sha256"], name="blob_once"),
            models.CheckConstraint(condition=Q(sha256__regex=r"^[0-9a-f]{64}$"), name="blob_digest_shape"),
        ]

    def __str__(self) -> str:
        return self.sha256

    @staticmethod
    def storage() -> Storage:
        return storages["blobs"]

    @property
    def path(self) -> str:
        return f"{self.sha256[:2]}/{self.sha256}"
