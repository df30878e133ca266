"""The console's signing key: DSSE envelopes (Ed25519) that anybody can verify offline with the published key."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any, TypedDict

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]  # its documented home

from console.models import PublishedKey

IN_TOTO = "application/vnd.in-toto+json"
KEY_TYPE = SCHEME = "ed25519"
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class PublicKey(TypedDict):
    """`public` is hex of the key's 32 bytes; `current` the one that signs now."""

    keyid: str
    keytype: str
    scheme: str
    public: str
    current: bool
    first_used_at: str


@cache
def _signer(key: str) -> CryptoSigner:
    return CryptoSigner(Ed25519PrivateKey.from_private_bytes(base64.b64decode(key)))


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces: the same bytes for the same value."""
    return _CANONICAL.encode(value).encode()


def sign(statement: dict[str, Any]) -> dict[str, Any]:
    """`{"payload": base64, "payloadType": …, "signatures": [{"keyid", "sig"}]}`."""
    _publish()
    envelope = Envelope(canonical(statement), IN_TOTO, {})
    envelope.sign(_signer(settings.DESKYARD_SIGNING_KEY))
    return dict(envelope.to_dict())


def public_keys() -> list[PublicKey]:
    """The key that signs now, then those that signed before it, newest first."""
    current = _publish()
    rows = [current, *PublishedKey.objects.exclude(pk=current.pk)]
    return [
        PublicKey(
            keyid=row.keyid,
            keytype=KEY_TYPE,
            scheme=SCHEME,
            public=row.public,
            current=row == current,
            first_used_at=row.first_used_at.isoformat().replace("+00:00", "Z"),
        )
        for row in rows
    ]


def _publish() -> PublishedKey:
    """The row of the key that signs now. There is one before anything it signed leaves the house."""
    key = _signer(settings.DESKYARD_SIGNING_KEY).public_key
    row, _ = PublishedKey.objects.get_or_create(keyid=key.keyid, defaults={"public": key.keyval["public"]})
    return row
