"""Make the demo workspace, or bring it up to date: `manage.py demo --url URL [--image NAME=sha256:…]`."""

from __future__ import annotations

import json
import secrets
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from knox.crypto import hash_token

from console.actions.tokens import issue_token, revoke_token
from console.actions.workspaces import create_workspace
from console.actor import Actor
from console.embedded.home import Home, write_private
from console.models import Scope, Token, User, Workspace
from desktops.actions.templates import publish_template
from runs.actions.material import store_own_set
from runs.tasksets.templates import TEMPLATE_APPS

EMAIL = "owner@example.com"
SLUG = "demo"
API_TOKEN, WORKER_TOKEN = "Demo", "Worker on this machine"
API_SCOPES = tuple(scope.value for scope in Scope if scope != Scope.WORKERS_CONNECT)
TITLES = {
    "basic": ("Basic desktop", "Window manager, terminal, file manager, text editor and desktop settings."),
    "office": (
        "Office desktop",
        "The basic desktop with LibreOffice, GIMP, VLC, Chromium and Thunderbird.",
    ),
}


class Command(BaseCommand):
    help = (
        "Make the demo workspace: its owner, tokens, task sets and templates. Repeating it changes nothing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--migrate", action="store_true", help="Bring the tables up to date first.")
        parser.add_argument("--url", required=True, help="The console's address, for demo.json.")
        parser.add_argument(
            "--image",
            action="append",
            default=[],
            metavar="NAME=DIGEST",
            help="A desktop image of this machine, published as a template. May be repeated.",
        )

    def handle(self, *args: Any, url: str, image: list[str], migrate: bool, **options: Any) -> None:
        if migrate:
            call_command("migrate", interactive=False, verbosity=0)
        home = Home(settings.HOME)
        told = json.loads(home.demo.read_text()) if home.demo.exists() else {}
        with transaction.atomic():
            password = told.get("password") or secrets.token_urlsafe(12)
            owner = _owner(password)
            workspace = _workspace(owner)
            actor = Actor.person(owner)
            token = _token(workspace, owner, API_TOKEN, API_SCOPES, told.get("token", ""), actor)
            known = home.worker_token.read_text().strip() if home.worker_token.exists() else ""
            worker = _token(workspace, owner, WORKER_TOKEN, (Scope.WORKERS_CONNECT.value,), known, actor)
            store_own_set(workspace=workspace, actor=actor)
            for each in image:
                self.stdout.write(str(_publish(workspace, each, actor)))
        write_private(home.worker_token, worker + "\n")
        demo = {"url": url, "email": EMAIL, "password": password, "token": token, "workspace": SLUG}
        write_private(home.demo, json.dumps(demo, indent=2) + "\n")


def _owner(password: str) -> User:
    """The owner, who is staff too: on one's own machine nobody else could open the admin."""
    owner = User.objects.filter(email=EMAIL).first()
    if owner is None:
        return User.objects.create_superuser(EMAIL, password, name="Demo owner")
    if not owner.check_password(password):
        owner.set_password(password)
        owner.save(update_fields=["password"])
    return owner


def _workspace(owner: User) -> Workspace:
    found = Workspace.objects.filter(slug=SLUG).first()
    return found or create_workspace(slug=SLUG, name="Demo", owner=owner)


def _token(
    workspace: Workspace, owner: User, name: str, scopes: tuple[str, ...], known: str, actor: Actor
) -> str:
    """The secret that is known already while it is live and has these scopes, else a new one's."""
    live = Token.objects.for_workspace(workspace).filter(user=owner, name=name, revoked_at=None).first()
    if live is not None:
        if known and live.digest == hash_token(known) and set(live.scopes) == set(scopes) and live.is_live:
            return known
        revoke_token(live, actor=actor)
    _, secret = issue_token(
        workspace=workspace, user=owner, name=name, scopes=scopes, expires_in=None, actor=actor
    )
    return secret


def _publish(workspace: Workspace, image: str, actor: Actor) -> Any:
    name, _, digest = image.partition("=")
    if name not in TITLES or not digest.startswith("sha256:"):
        raise CommandError(
            f"--image wants NAME=sha256:…, with NAME one of {', '.join(TITLES)}; not {image!r}"
        )
    title, description = TITLES[name]
    return publish_template(
        workspace=workspace,
        name=name,
        title=title,
        description=description,
        apps=sorted(TEMPLATE_APPS[name]),
        digest=digest,
        actor=actor,
    )
