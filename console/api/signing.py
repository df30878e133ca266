"""The console's signing key: DSSE envelopes (Ed25519) that anybody can verify offline with the published key."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from securesystemslib.dsse import Envelope
from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]  # its documented home

IN_TOTO = "application/vnd.in-toto+json"


@cache
def _signer(key: str) -> CryptoSigner:
    return CryptoSigner(Ed25519PrivateKey.from_private_bytes(base64.b64decode(key)))


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces: the same bytes for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sign(statement: dict[str, Any]) -> dict[str, Any]:
    """`{"payload": base64, "payloadType": …, "signatures": [{"keyid", "sig"}]}`."""
    envelope = Envelope(canonical(statement), IN_TOTO, {})
    envelope.sign(_signer(settings.DESKYARD_SIGNING_KEY))
    return dict(envelope.to_dict())


def public_keys() -> list[dict[str, str]]:
    """Keys that signatures of this console verify with; `public` is hex of the key's 32 bytes."""
    key = _signer(settings.DESKYARD_SIGNING_KEY).public_key
    return [
        {
            "keyid": key.keyid,
            "keytype": key.keytype,
            "scheme": key.scheme,
            "public": key.keyval["public"],
        }
    ]
