"""The Export provenance button: the same signed manifest as the API's, for members only."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

from django.test import Client

from console.models import User, Workspace
from runs.models import Run
from tests.factories import RunFactory

ClientFor = Callable[[User], Client]


def address(run: Run) -> str:
    return f"/w/{run.workspace.slug}/runs/{run.number}/provenance.json"


def test_the_manifest_comes_as_a_file_of_this_run(
    workspace: Workspace, member: User, client_for: ClientFor
) -> None:
    run = RunFactory(workspace=workspace, status="completed")
    reply = client_for(member).get(address(run))
    assert reply["Content-Disposition"] == f'attachment; filename="run-{run.number}-provenance.json"'
    statement = json.loads(base64.b64decode(reply.json()["payload"]))
    assert str(run.pk) in json.dumps(statement)
    assert reply.json()["signatures"]


def test_the_configuration_page_links_it(workspace: Workspace, member: User, client_for: ClientFor) -> None:
    run = RunFactory(workspace=workspace, status="completed")
    page = client_for(member).get(f"/w/{workspace.slug}/runs/{run.number}/configuration/").content.decode()
    assert address(run) in page


def test_an_outsider_finds_nothing(workspace: Workspace, outsider: User, client_for: ClientFor) -> None:
    assert client_for(outsider).get(address(RunFactory(workspace=workspace))).status_code == 404


def test_it_is_only_read(workspace: Workspace, member: User, client_for: ClientFor) -> None:
    assert client_for(member).post(address(RunFactory(workspace=workspace))).status_code == 405
