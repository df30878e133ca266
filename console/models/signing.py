"""Public keys that signatures of this console verify with. A key that was used once stays published."""

from __future__ import annotations

from django.db import models


class PublishedKey(models.Model):
    """Written when a key first signs or is first shown: after a change of key its old signatures still verify."""

    keyid = models.CharField(max_length=64, unique=True)
    public = models.CharField(max_length=64, help_text="Hex of the Ed25519 key's 32 bytes.")
    first_used_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-first_used_at"]

    def __str__(self) -> str:
        return self.keyid
