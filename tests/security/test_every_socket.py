"""Every websocket route, dialled as everybody through the console's own application."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.db import connection
from django.test import Client

from console.models import Membership, User, Workspace
from desktops.live import NO_VIEW
from desktops.sockets import UNAUTHORISED
from tests.factories import MembershipFactory, RunFactory, UserFactory

from . import rules

pytestmark = pytest.mark.django_db(transaction=True)
HOST = (b"host", b"127.0.0.1")
ORIGIN = (b"origin", b"http://127.0.0.1")
RUN = "ws/w/<slug:workspace>/runs/<int:number>"


@pytest.fixture(autouse=True)
async def _closed_connections() -> AsyncIterator[None]:
    """The communicator keeps channels from closing the threads' database connections."""
    yield
    await database_sync_to_async(lambda: connection.close())()


def application() -> Any:
    from console.asgi import application  # loads the middleware, which wants the tests' settings

    return application


def test_every_route_is_declared() -> None:
    routes = application().application_mapping["websocket"].routes
    assert {str(route.pattern) for route in routes} - {""} == set(rules.SOCKETS)


async def ends_with(path: str, *headers: tuple[bytes, bytes]) -> int | None:
    """The code that the door closes with at once; None when it stays open."""
    line = WebsocketCommunicator(application(), path, headers=[HOST, *headers])
    try:
        connected, code = await line.connect()
        if not connected:
            return code or 1000
        if await line.receive_nothing(timeout=0.4):
            return None
        said = await line.receive_output(1)
        if said["type"] == "websocket.send" and "ended" in said.get("text", ""):  # why, before it closes
            said = await line.receive_output(1)
        return int(said.get("code") or 1000) if said["type"] == "websocket.close" else None
    finally:
        await line.disconnect()


def cookie(client: Client) -> tuple[bytes, bytes]:
    return (
        b"cookie",
        f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}".encode(),
    )


@pytest.fixture
def lines(
    workspace: Workspace,
    owner: User,
    admin: User,
    member: User,
    outsider: User,
    other_workspace: Workspace,
    client_for: Callable[[User], Client],
) -> dict[str, list[tuple[bytes, bytes]]]:
    """The headers of each persona's browser."""
    creator = UserFactory()
    MembershipFactory(workspace=workspace, user=creator)
    RunFactory(workspace=workspace, creator=creator, status="running")
    people = {"owner": owner, "admin": admin, "member": member, "creator": creator, "outsider": outsider}
    return {rules.ANONYMOUS: [], **{who: [cookie(client_for(user))] for who, user in people.items()}}


async def test_a_run_is_heard_by_members_only(lines: dict[str, list[tuple[bytes, bytes]]]) -> None:
    for persona in rules.PERSONAS:
        code = await ends_with("/ws/w/lab/runs/1", ORIGIN, *lines[persona])
        assert (code is None) == (persona in rules.SOCKETS[RUN]), (persona, code)


async def test_another_site_s_page_hears_nothing(lines: dict[str, list[tuple[bytes, bytes]]]) -> None:
    elsewhere = (b"origin", b"https://evil.example")
    assert await ends_with("/ws/w/lab/runs/1", elsewhere, *lines[rules.OWNER]) is not None


async def test_a_worker_s_door_opens_to_its_own_kind_of_token(
    lines: dict[str, list[tuple[bytes, bytes]]], secret_for: Callable[..., str], member: User
) -> None:
    make = database_sync_to_async(secret_for)

    def bearer(secret: str) -> tuple[bytes, bytes]:
        return b"authorization", f"Bearer {secret}".encode()

    assert await ends_with("/ws/worker", bearer(await make("workers:connect"))) is None
    for persona in rules.PERSONAS:
        assert await ends_with("/ws/worker", *lines[persona]) is not None, persona
    for bad in (await make("runs:read", "runs:write"), "dy_" + "0" * 64):
        assert await ends_with("/ws/worker", bearer(bad)) is not None
    orphaned = await make("runs:read", user=member)
    await database_sync_to_async(Membership.objects.filter(user=member).delete)()
    assert await ends_with("/ws/worker", bearer(orphaned)) is not None


async def test_a_desktop_s_screen_is_shown_by_ticket_only(
    lines: dict[str, list[tuple[bytes, bytes]]],
) -> None:
    """What a ticket is good for: tests/desktops/test_live_views.py."""
    for persona in rules.PERSONAS:
        assert await ends_with("/ws/live/made-up", ORIGIN, *lines[persona]) is not None, persona
    elsewhere = (b"origin", b"https://evil.example")
    assert await ends_with("/ws/live/made-up", elsewhere, *lines[rules.OWNER]) is not None


async def test_a_tunnel_opens_to_a_worker_s_token_only(
    lines: dict[str, list[tuple[bytes, bytes]]], secret_for: Callable[..., str]
) -> None:
    tunnel = f"/ws/worker/tunnel/{uuid.uuid4()}"
    for persona in rules.PERSONAS:
        assert await ends_with(tunnel, *lines[persona]) == UNAUTHORISED, persona
    for scope, code in (("runs:read", UNAUTHORISED), ("workers:connect", NO_VIEW)):
        secret = await database_sync_to_async(secret_for)(scope)
        assert await ends_with(tunnel, (b"authorization", f"Bearer {secret}".encode())) == code
