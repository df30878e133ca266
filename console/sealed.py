"""Secrets at rest, under keys of their own (DESKYARD_SECRET_KEYS): written with the newest, read with any."""

from __future__ import annotations

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings


def _keys() -> MultiFernet:
    return MultiFernet([Fernet(key) for key in settings.DESKYARD_SECRET_KEYS])


def seal(text: str) -> str:
    return _keys().encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """Raises cryptography's InvalidToken for what no key of this console has sealed."""
    return _keys().decrypt(sealed.encode()).decode()
