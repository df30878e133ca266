"""Webhooks and what leaves the house: an outbox that is written with what it tells, and a log of every try."""

from __future__ import annotations

import uuid
from urllib.parse import urlsplit

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from .user import User
from .workspace import Workspace, WorkspaceRowQuerySet

URL_LENGTH = 500


class Webhook(models.Model):
    class Event(models.TextChoices):
        RUN_COMPLETED = "run.completed", "A run completed"
        RUN_FAILED = "run.failed", "A run failed"
        RUN_CANCELLED = "run.cancelled", "A run was cancelled"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=URL_LENGTH)
    events = ArrayField(models.CharField(max_length=30, choices=Event.choices), size=len(Event))
    sealed_secret = models.TextField(editable=False, help_text="Encrypted; shown once, when it was made.")
    active = models.BooleanField(default=True)
    creator = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        ordering = ["created_at"]
        constraints = [
            models.CheckConstraint(condition=Q(events__len__gt=0), name="webhook_has_an_event"),
            models.UniqueConstraint(fields=["workspace", "url"], name="webhook_url_once"),
        ]

    def __str__(self) -> str:
        return self.url

    @property
    def host(self) -> str:
        """The rest of an address may be its receiver's secret: where others read, this stands for it."""
        return urlsplit(self.url).netloc


class Delivery(models.Model):
    """One message to one receiver: a webhook, or a person by mail. Due until it arrived or was given up."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="deliveries")
    webhook = models.ForeignKey(Webhook, null=True, on_delete=models.CASCADE, related_name="deliveries")
    recipient = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="+")
    message = models.UUIDField(
        default=uuid.uuid4, editable=False, help_text="The same for every try, so a receiver can tell."
    )
    event = models.CharField(max_length=30)
    subject = models.CharField(max_length=200, blank=True, help_text="What it is about, in a few words.")
    body = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)
    due_at = models.DateTimeField(null=True, blank=True, help_text="None: nothing more to do.")
    tries = models.PositiveSmallIntegerField(default=0)
    delivered_at = models.DateTimeField(null=True, blank=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "deliveries"
        constraints = [
            models.CheckConstraint(
                condition=Q(webhook=None) ^ Q(recipient=None), name="delivery_has_one_receiver"
            ),
            models.CheckConstraint(
                condition=Q(due_at=None) | Q(delivered_at=None), name="delivery_due_or_delivered"
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="delivery_due"),
            models.Index(fields=["webhook", "-id"]),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.webhook.host if self.webhook else self.recipient}"

    @property
    def message_id(self) -> str:
        return f"msg_{self.message.hex}"

    @property
    def state(self) -> str:
        """delivered, due (not tried yet), retrying or given_up."""
        if self.delivered_at:
            return "delivered"
        if self.due_at is None:
            return "given_up"
        return "retrying" if self.tries else "due"


class DeliveryTry(models.Model):
    """One go at a delivery: what the receiver answered, or a few words on why it did not. Never a secret."""

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="try_rows")
    at = models.DateTimeField(auto_now_add=True)
    status = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="HTTP status, if there was one."
    )
    milliseconds = models.PositiveIntegerField()
    error = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["-pk"]
        verbose_name_plural = "delivery tries"

    def __str__(self) -> str:
        return f"{self.status or self.error} in {self.milliseconds} ms"
