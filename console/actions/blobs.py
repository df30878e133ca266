"""Blobs come in once, and are what they say they are."""

from __future__ import annotations

import hashlib

from django.core.files.base import ContentFile

from console.models import Blob, Workspace

MAX_BYTES = 64 << 20


class DigestMismatch(ValueError):
    """The bytes do not have the digest they were sent under."""


def store_blob(*, workspace: Workspace, sha256: str, data: bytes, content_type: str) -> Blob:
    """Store the bytes under their digest; storing them again changes nothing."""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise DigestMismatch(sha256)
    known = Blob.objects.for_workspace(workspace).filter(sha256=sha256).first()
    if known is not None:
        return known
    blob = Blob(workspace=workspace, sha256=sha256, size=len(data), content_type=content_type)
    storage = Blob.storage()
    if not storage.exists(blob.path):
        kept = storage.save(blob.path, ContentFile(data))
        if kept != blob.path:  # somebody sent the same bytes at the same moment
            storage.delete(kept)
    row, _ = Blob.objects.get_or_create(
        workspace=workspace, sha256=sha256, defaults={"size": len(data), "content_type": content_type}
    )
    return row
