"""Secrets at rest."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.fernet import Fernet, InvalidToken

from console.sealed import seal, unseal


def test_what_is_sealed_shows_nothing_and_comes_back() -> None:
    sealed = seal("pässword")
    assert "ssword" not in sealed
    assert sealed != seal("pässword")
    assert unseal(sealed) == "pässword"


def test_a_new_key_reads_what_the_old_one_sealed(settings: Any) -> None:
    sealed = seal("secret")
    old = settings.DESKYARD_SECRET_KEYS
    settings.DESKYARD_SECRET_KEYS = [Fernet.generate_key().decode(), *old]
    assert unseal(sealed) == "secret"
    settings.DESKYARD_SECRET_KEYS = settings.DESKYARD_SECRET_KEYS[:1]
    with pytest.raises(InvalidToken):
        unseal(sealed)
