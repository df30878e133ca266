"""Sign-in policy: people are invited, nobody signs up by themselves; secrets of second factors are sealed at rest."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from django.http import HttpRequest

from console.sealed import seal, unseal


class InvitedOnlyAdapter(DefaultAccountAdapter):
    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "email_password_mismatch": "No account has this email with this password. Check both, then try again.",
        "incorrect_password": "This is not your password. Type it again.",
        "too_many_login_attempts": "That was too many wrong tries. Wait 5 minutes, then try again.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False


class SealedFactors(DefaultMFAAdapter):
    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": "This code is not right, or is too old.",
    }

    def encrypt(self, text: str) -> str:
        return seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        return unseal(encrypted_text)
