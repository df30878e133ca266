"""The fixed cast, the clients, and a database for whoever has none."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings
from django.test import Client
from rest_framework.test import APIClient
from xdist.scheduler import LoadScopeScheduling

from console.actions.tokens import issue_token
from console.actions.workspaces import create_workspace
from console.actor import Actor
from console.embedded.home import Home
from console.embedded.postgres import EmbeddedPostgres
from console.models import Membership, Scope, User, Workspace

from .factories import MembershipFactory, TaskSetFactory, TemplateVersionFactory, UserFactory

ALL_SCOPES = tuple(scope.value for scope in Scope if scope is not Scope.WORKERS_CONNECT)


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


# Where several processes share the tests, each of these goes to one of them as a whole: what a session begins once, the
# services and the real desktops, is not begun twice. The rest goes to whoever is free.
TOGETHER = {
    "services": ("tests/faults/", "tests/browser/"),
    "desktops": (
        "tests/console/embedded/test_up.py",
        "tests/desktops/engine/",
        "tests/desktops/guest/",
        "tests/desktops/test_no_secret_in_a_desktop.py",
        "tests/desktops/worker/test_images_of_desktops.py",
        "tests/desktops/worker/test_live_forks.py",
        "tests/desktops/worker/test_real_desktop.py",
        "tests/desktops/worker/test_templates_from_desktops.py",
        "tests/peers/",
    ),
    "recipes": ("tests/runs/recipes/test_recipes_on_desktops.py",),
}


class _Together(LoadScopeScheduling):
    """By the file and not by pytest-xdist's own mark, which pytest 9.2 and later do not let through."""

    def _split_scope(self, nodeid: str) -> str:
        return next((name for name, paths in TOGETHER.items() if nodeid.startswith(paths)), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _Together(config, log)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, request: pytest.FixtureRequest
) -> Iterator[None]:
    """DATABASE_URL, else the data folder's server if it answers, else one that ends with the tests: of each process
    its own, since none knows which of them ends last."""
    home = Home.from_environment()
    known = os.environ.get("DATABASE_URL") or (
        home.database_url.read_text().strip() if home.database_url.exists() else ""
    )
    if known and _answers(known):
        yield
        return
    import dj_database_url
    from django.db import connections

    process = getattr(request.config, "workerinput", {}).get("workerid", "")
    with EmbeddedPostgres(Home(home.root / "tests" / process), durable=False) as server:
        connections["default"].settings_dict.update(dj_database_url.parse(server.url))
        yield


@pytest.fixture(autouse=True)
def _test_settings(settings: Any, tmp_path: Path) -> None:
    """Fast passwords, files in the test's own folder, no scan of the static files for each client."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.WHITENOISE_AUTOREFRESH = True
    settings.STORAGES = {
        **django_settings.STORAGES,
        "blobs": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path / "blobs")},
        },
    }


@pytest.fixture
def owner(db: None) -> User:
    return UserFactory(email="olga@example.test", name="Olga Owner")


@pytest.fixture
def workspace(owner: User) -> Workspace:
    return create_workspace(slug="lab", name="Lab", owner=owner)


@pytest.fixture
def admin(workspace: Workspace) -> User:
    user = UserFactory(email="adam@example.test", name="Adam Admin")
    MembershipFactory(workspace=workspace, user=user, role=Membership.Role.ADMIN)
    return user


@pytest.fixture
def member(workspace: Workspace) -> User:
    user = UserFactory(email="mia@example.test", name="Mia Member")
    MembershipFactory(workspace=workspace, user=user, role=Membership.Role.MEMBER)
    return user


@pytest.fixture
def outsider(db: None) -> User:
    """Owner of another workspace, `other_workspace`; a stranger in `workspace`."""
    return UserFactory(email="otto@example.test", name="Otto Outsider")


@pytest.fixture
def other_workspace(outsider: User) -> Workspace:
    return create_workspace(slug="elsewhere", name="Elsewhere", owner=outsider)


@pytest.fixture
def material(workspace: Workspace) -> dict[str, Any]:
    """What a run needs: the task set `basics` with task-1 and task-2, the published template basic@1."""
    return {
        "task_set": TaskSetFactory(workspace=workspace),
        "template_version": TemplateVersionFactory(workspace=workspace),
    }


@pytest.fixture
def client_for() -> Callable[[User], Client]:
    def signed_in(user: User) -> Client:
        client = Client()
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return signed_in


@pytest.fixture
def secret_for(workspace: Workspace, owner: User) -> Callable[..., str]:
    """A new token's secret: `secret_for("runs:read", user=…, workspace=…)`; without scopes it has all."""
    made = 0

    def make(*scopes: str, user: User = owner, workspace: Workspace = workspace) -> str:
        nonlocal made
        made += 1
        _, secret = issue_token(
            workspace=workspace,
            user=user,
            name=f"token {made}",
            scopes=scopes or ALL_SCOPES,
            expires_in=None,
            actor=Actor.person(user),
        )
        return secret

    return make


@pytest.fixture
def api(secret_for: Callable[..., str]) -> Callable[..., APIClient]:
    """A client with a token: `api("runs:read")`, `api(user=outsider, workspace=other_workspace)`."""

    def client(*scopes: str, **whose: Any) -> APIClient:
        bearer = APIClient()
        bearer.credentials(HTTP_AUTHORIZATION=f"Bearer {secret_for(*scopes, **whose)}")
        return bearer

    return client
