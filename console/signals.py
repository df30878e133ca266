"""What allauth and Django tell about accounts goes into the audit log: sign-ins, passwords, second factors, e-mails."""

from __future__ import annotations

from typing import Any

from allauth.account import signals as account
from allauth.mfa import signals as mfa
from allauth.mfa.models import Authenticator
from django.contrib.auth.signals import user_logged_out, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest

from console.actions.audit import record, record_of_account
from console.actor import Actor
from console.models import User

FACTORS = {Authenticator.Type.TOTP: "authenticator app", Authenticator.Type.RECOVERY_CODES: "recovery codes"}


def _own(user: User, action: str, **detail: str) -> None:
    record_of_account(user=user, actor=Actor.person(user), action=action, detail=detail)


@receiver(account.user_logged_in)
def signed_in(user: User, **told: Any) -> None:
    _own(user, "account.signed_in")


@receiver(user_logged_out)
def signed_out(user: User | None, **told: Any) -> None:
    if user is not None:
        _own(user, "account.signed_out")


@receiver(user_login_failed)
def not_signed_in(credentials: dict[str, Any], request: HttpRequest | None = None, **told: Any) -> None:
    """A wrong password, which is kept nowhere; nor is what stands in the e-mail's place without being one."""
    typed = str(credentials.get("email") or credentials.get("username") or "").replace("\x00", "")
    user = User.objects.filter(email__iexact=typed).first()
    if user is None:
        subject = typed if "@" in typed else "no e-mail address"
        record(workspace=None, actor=Actor.nobody(), action="account.sign_in_failed", subject=subject)
    else:
        record_of_account(user=user, actor=Actor.nobody(), action="account.sign_in_failed")


@receiver(mfa.authentication_failed)
def second_factor_failed(user: User, **told: Any) -> None:
    record_of_account(user=user, actor=Actor.nobody(), action="account.second_factor_failed")


@receiver(mfa.authenticator_added)
def second_factor_added(user: User, authenticator: Authenticator, **told: Any) -> None:
    _own(user, "account.second_factor_added", what=FACTORS.get(authenticator.type, authenticator.type))


@receiver(mfa.authenticator_removed)
def second_factor_removed(user: User, authenticator: Authenticator, **told: Any) -> None:
    _own(user, "account.second_factor_removed", what=FACTORS.get(authenticator.type, authenticator.type))


@receiver(mfa.authenticator_reset)
def recovery_codes_made_anew(user: User, **told: Any) -> None:
    _own(user, "account.recovery_codes_renewed")


@receiver([account.password_changed, account.password_set])
def password_changed(user: User, **told: Any) -> None:
    _own(user, "account.password_changed")


@receiver(account.password_reset)
def password_reset(user: User, **told: Any) -> None:
    record_of_account(user=user, actor=Actor.nobody(), action="account.password_reset_by_mail")


@receiver(account.email_changed)
def email_changed(user: User, from_email_address: Any, to_email_address: Any, **told: Any) -> None:
    was = str(from_email_address.email) if from_email_address else ""
    _own(user, "account.email_changed", was=was, email=str(to_email_address.email))
