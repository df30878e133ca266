"""`manage.py demo`: what `make up` and a person who signs in find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from console.models import Token, User, Workspace
from desktops.models import TemplateVersion

pytestmark = pytest.mark.django_db

URL = "http://127.0.0.1:8000"
IMAGE = "basic=sha256:" + "a" * 64


@pytest.fixture
def home(settings: Any, tmp_path: Path) -> Path:
    settings.HOME = tmp_path
    return tmp_path


def demo(*arguments: str, url: str = URL) -> dict[str, str]:
    from django.conf import settings

    call_command("demo", "--url", url, *arguments)
    return dict(json.loads((settings.HOME / "demo.json").read_text()))


def test_it_makes_an_owner_a_workspace_tokens_tasks_and_templates(home: Path) -> None:
    told = demo(f"--image={IMAGE}")
    assert sorted(told) == ["email", "password", "token", "url", "workspace"]
    assert User.objects.get(email=told["email"]).check_password(told["password"])
    workspace = Workspace.objects.get(slug=told["workspace"])
    assert workspace.task_sets.get(name="deskyard-basics").tasks.count() >= 14
    version = TemplateVersion.objects.get(template__workspace=workspace, template__name="basic")
    assert (version.version, version.status) == (1, "published")
    for name in ("demo.json", "worker-token"):
        assert (home / name).stat().st_mode & 0o777 == 0o600


def test_its_token_opens_the_api_and_the_workers_does_not(home: Path) -> None:
    told = demo()
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {told['token']}")
    assert client.get("/v1/task_sets").status_code == 200
    assert client.get("/v1/computers").status_code == 200
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {(home / 'worker-token').read_text().strip()}")
    assert client.get("/v1/task_sets").status_code == 403


def test_repeating_it_keeps_everything_and_follows_a_new_address(home: Path) -> None:
    first = demo(f"--image={IMAGE}")
    worker = (home / "worker-token").read_text()
    second = demo(f"--image={IMAGE}", url="http://127.0.0.1:9000")
    assert second == first | {"url": "http://127.0.0.1:9000"}
    assert (home / "worker-token").read_text() == worker
    assert Token.objects.count() == 2
    assert TemplateVersion.objects.count() == 1


def test_a_lost_file_gets_a_new_password_and_a_new_token(home: Path) -> None:
    first = demo()
    (home / "demo.json").unlink()
    second = demo()
    assert second["password"] != first["password"]
    assert second["token"] != first["token"]
    assert User.objects.get(email=second["email"]).check_password(second["password"])
    assert Token.objects.filter(revoked_at=None).count() == 2


def test_an_image_that_changed_becomes_the_next_version(home: Path) -> None:
    demo(f"--image={IMAGE}")
    demo("--image=basic=sha256:" + "b" * 64)
    versions = TemplateVersion.objects.order_by("version").values_list("version", "digest")
    assert [number for number, _ in versions] == [1, 2]


@pytest.mark.parametrize("image", ["basic", "other=sha256:00", "basic=latest"])
def test_an_image_it_does_not_know_is_refused(home: Path, image: str) -> None:
    with pytest.raises(CommandError, match="--image wants NAME=sha256:"):
        demo(f"--image={image}")
    assert not User.objects.exists()
