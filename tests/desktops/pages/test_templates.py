"""The Templates pages: versions, their digests and rates, and which workers have the image."""

from __future__ import annotations

from collections.abc import Callable

from django.test import Client
from django.urls import reverse

from console.models import User, Workspace
from tests import factories

ClientFor = Callable[[User], Client]


def test_without_a_template_the_page_says_what_to_do(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    page = client_for(member).get(reverse("template-list", args=[workspace.slug])).content.decode()
    assert "No template yet" in page
    assert reverse("worker-list", args=[workspace.slug]) in page


def test_the_list_shows_every_version_with_its_workers(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    factories.TemplateVersionFactory(workspace=workspace)
    factories.TemplateVersionFactory(workspace=workspace, version=2, draft=True)
    factories.WorkerFactory(workspace=workspace, name="yard-a")
    page = client_for(member).get(reverse("template-list", args=[workspace.slug])).content.decode()
    for words in ("basic@1", "basic@2", "yard-a", "$0.06", "not pinned yet", "1 published version, 1 draft"):
        assert words in page


def test_a_template_opens_at_its_newest_published_version(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    version = factories.TemplateVersionFactory(workspace=workspace)
    factories.TemplateVersionFactory(workspace=workspace, version=2, draft=True)
    client, address = client_for(member), reverse("template", args=[workspace.slug, "basic"])
    assert client.get(address).context["picked"].version == version
    assert client.get(f"{address}?version=2").context["picked"].version.version == 2
    assert client.get(f"{address}?version=3").status_code == 404
    assert version.digest in client.get(address).content.decode()


def test_an_image_built_from_something_else_is_told(
    client_for: ClientFor, member: User, workspace: Workspace
) -> None:
    factories.TemplateVersionFactory(workspace=workspace)
    other = [{"name": "basic", "version": 1, "digest": "sha256:" + "0" * 64}]
    factories.WorkerFactory(workspace=workspace, images=other)
    page = client_for(member).get(reverse("template", args=[workspace.slug, "basic"])).content.decode()
    assert "Built from another recipe" in page


def test_an_outsider_finds_nothing(client_for: ClientFor, outsider: User, workspace: Workspace) -> None:
    factories.TemplateVersionFactory(workspace=workspace)
    client = client_for(outsider)
    assert client.get(reverse("template-list", args=[workspace.slug])).status_code == 404
    assert client.get(reverse("template", args=[workspace.slug, "basic"])).status_code == 404


def test_the_pages_only_show(client_for: ClientFor, owner: User, workspace: Workspace) -> None:
    factories.TemplateVersionFactory(workspace=workspace)
    assert client_for(owner).post(reverse("template-list", args=[workspace.slug])).status_code == 405
    assert client_for(owner).post(reverse("template", args=[workspace.slug, "basic"])).status_code == 405
