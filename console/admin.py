"""The administration for platform staff: everything can be looked at, history cannot be changed.

People and workspaces are made here. Tokens and members change through their verbs, on the pages.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from allauth.account.decorators import secure_admin_login
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
from django import forms
from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.forms import AdminUserCreationForm
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from .actions.audit import record, record_of_account
from .actions.budgets import CapRejected, change_workspace_cap, check_workspace_cap
from .actions.workspaces import create_workspace
from .actor import Actor
from .models import (
    AuditEntry,
    Blob,
    Budget,
    Delivery,
    DeliveryTry,
    IdempotentReply,
    Invitation,
    LedgerEntry,
    LedgerTally,
    Membership,
    PublishedKey,
    Token,
    User,
    Webhook,
    Workspace,
)


def _staff_only(request: HttpRequest, extra_context: Any = None) -> HttpResponse:
    if request.user.is_authenticated and not request.user.is_staff:
        raise PermissionDenied("The administration is for those who run this console: platform staff only.")
    return _sign_in(request, extra_context)


# Staff sign in where everybody does, so that the second factor is asked for here too.
_sign_in = secure_admin_login(admin.site.login)
admin.site.login = _staff_only  # type: ignore[method-assign]
admin.site.site_header = admin.site.site_title = "Deskyard administration"
admin.site.index_title = "Platform"


def record_change(
    request: HttpRequest, action: str, workspace: Workspace | None, subject: str, changed: dict[str, Any]
) -> None:
    """A change that the operator made in a form here, in the transaction that the admin saves in."""
    detail = {name: value if isinstance(value, int | None) else str(value) for name, value in changed.items()}
    actor = Actor.operator(request.user)  # type: ignore[arg-type]
    record(workspace=workspace, actor=actor, action=action, subject=subject, detail=detail)


class ReadOnlyAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Rows that are history: seen, filtered, never added, changed or deleted here."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyInline(admin.TabularInline):  # type: ignore[type-arg]
    extra = 0
    show_change_link = True

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class MembershipInline(ReadOnlyInline):
    model = Membership
    fields = ("user", "workspace", "role", "joined_at")
    readonly_fields = ("joined_at",)


class EmailUserCreationForm(AdminUserCreationForm):  # type: ignore[type-arg]
    class Meta:
        model = User
        fields = ("email", "name")


@admin.register(User)
class UserAdmin(DjangoUserAdmin):  # type: ignore[type-arg]
    """Accounts. Nobody signs up by themselves: an operator makes the account, an admin of a workspace adds it."""

    ordering = ("email",)
    list_display = ("email", "name", "is_active", "is_staff", "last_login")
    search_fields = ("email", "name")
    list_filter = ("is_active", "is_staff")
    readonly_fields = ("last_login", "date_joined")
    fieldsets = (
        (None, {"fields": ("email", "name", "password")}),
        ("Platform", {"fields": ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )
    add_form = EmailUserCreationForm

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        if "email" in form.changed_data:
            # Whoever has the e-mail of before signs in by it and has passwords reset to it no longer.
            EmailAddress.objects.filter(user=obj).delete()
            EmailAddress.objects.create(user=obj, email=obj.email.lower(), primary=True, verified=True)
        what = "account.changed_by_operator" if change else "account.created"
        fields = ", ".join(name for name in form.changed_data if "password" not in name)
        actor = Actor.operator(request.user)  # type: ignore[arg-type]
        record_of_account(user=obj, actor=actor, action=what, detail={"fields": fields})

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        # History names people, and a workspace must not lose its last owner: an account is closed (not active) instead.
        return False

    add_fieldsets = ((None, {"fields": ("email", "name", "usable_password", "password1", "password2")}),)
    inlines = (MembershipInline,)


@admin.register(Workspace)
class WorkspaceAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """A workspace that is added here belongs to whoever adds it, with a budget of its own."""

    list_display = ("slug", "name", "run_parallelism", "last_run_number", "created_at")
    search_fields = ("slug", "name")
    readonly_fields = ("last_run_number", "last_computer_number", "created_at")
    inlines = (MembershipInline,)

    def save_model(self, request: HttpRequest, obj: Workspace, form: Any, change: bool) -> None:
        if change:
            obj.save(update_fields=form.changed_data or None)
            changed = {name: form.cleaned_data[name] for name in form.changed_data}
            record_change(request, "workspace.changed", obj, f"workspace {obj.name}", changed)
            return
        operator: User = request.user  # type: ignore[assignment]
        actor = Actor.operator(operator)
        made = create_workspace(slug=obj.slug, name=obj.name, owner=operator, actor=actor)
        made.run_parallelism = obj.run_parallelism
        made.save(update_fields=["run_parallelism"])
        obj.pk, obj._state.adding = made.pk, False

    def get_readonly_fields(self, request: HttpRequest, obj: Workspace | None = None) -> tuple[str, ...]:
        # The slug is part of every address that people and tokens have noted down.
        return (*self.readonly_fields, "slug") if obj else self.readonly_fields

    def has_delete_permission(self, request: HttpRequest, obj: Workspace | None = None) -> bool:
        return False


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    list_display = ("user", "workspace", "role", "joined_at")
    list_filter = ("role",)
    search_fields = ("user__email", "workspace__slug")
    list_select_related = ("user", "workspace")


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    """The digest is never shown: it is all that stands between a reader of this page and nothing."""

    list_display = (
        "name",
        "token_key",
        "workspace",
        "user",
        "scopes",
        "expiry",
        "last_used_at",
        "revoked_at",
    )
    fields = (
        "name",
        "token_key",
        "workspace",
        "user",
        "scopes",
        "created",
        "expiry",
        "last_used_at",
        "revoked_at",
    )
    search_fields = ("name", "user__email", "workspace__slug")
    list_select_related = ("user", "workspace")


@admin.register(PublishedKey)
class PublishedKeyAdmin(ReadOnlyAdmin):
    list_display = ("keyid", "public", "first_used_at")


class CapForm(forms.ModelForm):  # type: ignore[type-arg]
    """The database holds the cap too; this says so beside the field."""

    def clean_cap(self) -> Decimal | None:
        cap: Decimal | None = self.cleaned_data["cap"]
        used = self.instance.spent + self.instance.reserved
        try:
            check_workspace_cap(cap)
        except CapRejected as refused:
            raise forms.ValidationError(str(refused)) from refused
        if cap is not None and cap < used:
            raise forms.ValidationError(
                f"${used} are spent or reserved already; the cap cannot be below that."
            )
        return cap


@admin.register(Budget)
class BudgetAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """Only the cap of a workspace is set here; what was spent and reserved is the ledger's."""

    form = CapForm
    list_display = ("id", "workspace", "parent", "cap", "spent", "reserved")
    list_filter = ("workspace",)
    list_select_related = ("workspace", "parent")
    fields = ("workspace", "parent", "cap", "spent", "reserved")

    def get_readonly_fields(self, request: HttpRequest, obj: Budget | None = None) -> tuple[str, ...]:
        fixed = ("workspace", "parent", "spent", "reserved")
        # The cap of a run is changed on the run's page, while it is going.
        return fixed if obj is not None and obj.parent_id is None else (*fixed, "cap")

    def save_model(self, request: HttpRequest, obj: Budget, form: Any, change: bool) -> None:
        change_workspace_cap(obj.workspace, cap=obj.cap, actor=Actor.operator(request.user))  # type: ignore[arg-type]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(LedgerEntry)
class LedgerEntryAdmin(ReadOnlyAdmin):
    list_display = ("subject", "workspace", "rate_usd_per_hour", "opened_at", "settled_at", "seconds", "cost")
    list_filter = ("workspace", "settled_at")
    search_fields = ("subject",)
    list_select_related = ("workspace",)
    date_hierarchy = "opened_at"
    show_full_result_count = False


@admin.register(Blob)
class BlobAdmin(ReadOnlyAdmin):
    list_display = ("sha256", "workspace", "content_type", "size", "created_at")
    list_filter = ("content_type",)
    search_fields = ("sha256",)
    list_select_related = ("workspace",)
    show_full_result_count = False


@admin.register(IdempotentReply)
class IdempotentReplyAdmin(ReadOnlyAdmin):
    list_display = ("__str__", "workspace")
    list_select_related = ("workspace",)
    show_full_result_count = False


@admin.register(AuditEntry)
class AuditEntryAdmin(ReadOnlyAdmin):
    list_display = ("at", "workspace", "actor_kind", "actor_label", "action", "subject", "via", "ip")
    list_filter = ("actor_kind", "via", "workspace")
    search_fields = ("action", "subject", "actor_label")
    list_select_related = ("workspace",)
    date_hierarchy = "at"
    show_full_result_count = False


@admin.register(Invitation)
class InvitationAdmin(ReadOnlyAdmin):
    """The digest is never shown, as with tokens."""

    list_display = ("email", "workspace", "role", "invited_by", "expires_at", "accepted_at", "revoked_at")
    exclude = ("digest",)
    search_fields = ("email", "workspace__slug")
    list_select_related = ("workspace", "invited_by")


# allauth's own registrations let one edit what only its verbs may write.
for model in (EmailAddress, Authenticator, UserSession):
    admin.site.unregister(model)


@admin.register(EmailAddress)
class EmailAddressAdmin(ReadOnlyAdmin):
    list_display = ("email", "user", "primary", "verified")
    search_fields = ("email", "user__email")


@admin.register(UserSession)
class UserSessionAdmin(ReadOnlyAdmin):
    list_display = ("user", "created_at", "ip", "user_agent")
    exclude = ("session_key", "data")
    search_fields = ("user__email", "ip")
    list_select_related = ("user",)


@admin.register(Authenticator)
class AuthenticatorAdmin(ReadOnlyAdmin):
    """Second factors. Whoever lost theirs has it taken off here; its secret is not shown."""

    list_display = ("user", "type", "created_at", "last_used_at")
    exclude = ("data",)
    search_fields = ("user__email",)
    list_select_related = ("user",)
    actions = ("take_off",)

    @admin.action(description="Take every second factor off the chosen accounts")
    def take_off(self, request: HttpRequest, queryset: QuerySet[Authenticator]) -> None:
        actor = Actor.operator(request.user)  # type: ignore[arg-type]
        for user in User.objects.filter(pk__in=queryset.values("user")):
            Authenticator.objects.filter(user=user).delete()
            record_of_account(user=user, actor=actor, action="account.second_factor_taken_off")
            messages.success(request, f"{user.email} signs in by password alone now.")


@admin.register(Webhook)
class WebhookAdmin(ReadOnlyAdmin):
    """Without its secret, which is nobody's but the receiver's."""

    list_display = ("url", "workspace", "events", "active", "created_at")
    list_filter = ("active", "workspace")
    list_select_related = ("workspace",)
    exclude = ("sealed_secret",)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnlyAdmin):
    list_display = ("event", "subject", "workspace", "state", "tries", "created_at", "due_at")
    list_filter = ("event", "workspace")
    list_select_related = ("workspace", "webhook", "recipient")
    show_full_result_count = False


@admin.register(DeliveryTry)
class DeliveryTryAdmin(ReadOnlyAdmin):
    list_display = ("delivery", "at", "status", "milliseconds", "error")
    list_select_related = ("delivery__webhook", "delivery__recipient")
    show_full_result_count = False


admin.site.register(LedgerTally, ReadOnlyAdmin)
