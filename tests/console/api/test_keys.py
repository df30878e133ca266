"""GET /v1/keys: the key that signs now and every key that signed before."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.api.signing import sign
from console.models import PublishedKey

pytestmark = pytest.mark.django_db


def published() -> list[dict[str, Any]]:
    keys: list[dict[str, Any]] = APIClient().get("/v1/keys").json()["keys"]
    return keys


def test_the_key_that_signs_is_published_to_everybody() -> None:
    [signature] = sign({})["signatures"]
    [key] = published()
    assert key["keyid"] == signature["keyid"]
    assert key["current"] is True
    assert len(bytes.fromhex(key["public"])) == 32


def test_a_key_that_signed_stays_published_after_a_change_of_key(settings: Any) -> None:
    [old] = sign({})["signatures"]
    settings.DESKYARD_SIGNING_KEY = base64.b64encode(b"n" * 32).decode()
    [new] = sign({})["signatures"]
    keys = published()
    assert [key["keyid"] for key in keys] == [new["keyid"], old["keyid"]]
    assert [key["current"] for key in keys] == [True, False]


def test_looking_twice_publishes_once() -> None:
    published()
    published()
    assert PublishedKey.objects.count() == 1
