"""Desktop images. A version is a draft until published; a published one is immutable and pinned by digest."""

from __future__ import annotations

from decimal import Decimal

from django.db import models
from django.db.models import Q

from console.models import Workspace, WorkspaceRowQuerySet
from console.models.budget import money_field


class Template(models.Model):
    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="templates")
    name = models.SlugField(max_length=50)
    title = models.CharField(max_length=100)
    description = models.TextField(blank=True)
    apps = models.JSONField(default=list, help_text="Names of the applications in it, in OSWorld's words.")

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workspace", "name"], name="template_name_once")]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class TemplateVersion(models.Model):
    class Status(models.TextChoices):
        DRAFT = "draft", "Draft"  # may change, cannot be run
        PUBLISHED = "published", "Published"  # frozen, can be run
        RETIRED = "retired", "Retired"  # frozen, no new runs

    template = models.ForeignKey(Template, on_delete=models.CASCADE, related_name="versions")
    version = models.PositiveIntegerField()
    status = models.CharField(max_length=10, choices=Status.choices, default=Status.DRAFT)
    digest = models.CharField(
        max_length=71, blank=True, help_text="Digest of the recipe of the image: sha256:…"
    )
    rate_usd_per_hour = money_field(default=Decimal("0.06"))
    memory_mb = models.PositiveIntegerField(default=2048)
    cpus = models.DecimalField(max_digits=4, decimal_places=2, default=Decimal("1.5"))
    egress = models.CharField(max_length=4, choices=[("none", "None"), ("open", "Open")], default="none")
    base = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        related_name="+",
        null=True,
        blank=True,
        help_text="The version that the desktop it was made from ran.",
    )
    made_by = models.CharField(
        max_length=120, blank=True, help_text="Who saved it from a desktop; empty: built."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    published_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["template", "version"], name="template_version_once"),
            models.CheckConstraint(
                condition=Q(status="draft") | Q(digest__startswith="sha256:", published_at__isnull=False),
                name="template_published_is_pinned",
            ),
        ]
        ordering = ["template__name", "-version"]

    def __str__(self) -> str:
        return f"{self.template.name}@{self.version}"

    @property
    def family(self) -> set[str]:
        """Names of its template and of those that it was made from, one on top of the other: whatever runs on one of
        these runs on it too."""
        return {self.template.name} | (self.base.family if self.base else set())


class DiscardedImage(models.Model):
    """The image of a draft that was discarded, until no worker has it any longer."""

    workspace = models.ForeignKey(Workspace, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=71)
    discarded_at = models.DateTimeField(auto_now_add=True)

    objects = WorkspaceRowQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["workspace", "digest"], name="discarded_image_once"),
        ]

    def __str__(self) -> str:
        return self.digest
