"""The live door of a run's page: who may listen, and that what happens while nobody listens is told on arrival."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import AnonymousUser
from django.db import transaction

from console.models import Membership, User, Workspace
from runs.events import RoundCreated, append
from runs.models import Run
from runs.sockets import NOT_YOURS, RunConsumer
from tests.runs.pages.stage import a_run

pytestmark = pytest.mark.django_db(transaction=True)


def dial(run: Run, user: Any, query: str = "") -> WebsocketCommunicator:
    line = WebsocketCommunicator(RunConsumer.as_asgi(), f"/ws/w/lab/runs/{run.number}?{query}")
    line.scope["user"] = user
    line.scope["url_route"] = {"kwargs": {"workspace": "lab", "number": run.number}}
    return line


def happen(run: Run) -> int:
    with transaction.atomic():
        locked = Run.objects.select_for_update().get(pk=run.pk)
        append(locked, RoundCreated(round=1, attempts=2))
        return locked.last_seq


def test_a_member_hears_how_far_the_log_has_come(workspace: Workspace, member: User):
    run = a_run(workspace)
    happen(run)

    async def listen() -> None:
        line = dial(run, member, "after=0")
        assert (await line.connect())[0]
        assert json.loads(await line.receive_from(timeout=5)) == {"seq": 1}
        await sync_to_async(happen)(run)
        assert json.loads(await line.receive_from(timeout=5)) == {"seq": 2}
        await line.disconnect()

    async_to_sync(listen)()


def test_a_page_drawn_up_to_a_number_is_told_only_of_later_ones(workspace: Workspace, member: User):
    run = a_run(workspace)
    happen(run)

    async def listen() -> None:
        line = dial(run, member, "after=1")
        await line.connect()
        assert await line.receive_nothing(timeout=0.5)
        await line.disconnect()

    async_to_sync(listen)()


@pytest.mark.parametrize("who", ["outsider", "nobody"])
def test_whoever_is_not_a_member_is_turned_away(who, workspace: Workspace, outsider: User):
    run = a_run(workspace)

    async def listen() -> None:
        line = dial(run, outsider if who == "outsider" else AnonymousUser())
        await line.connect()
        assert await line.receive_output(timeout=5) == {"type": "websocket.close", "code": NOT_YOURS}

    async_to_sync(listen)()


def test_leaving_the_workspace_ends_the_feed(workspace: Workspace, member: User):
    run = a_run(workspace)

    async def listen() -> None:
        line = dial(run, member)
        await line.connect()
        await asyncio.sleep(0)
        await sync_to_async(Membership.objects.filter(user=member).delete)()
        await sync_to_async(happen)(run)
        output = await line.receive_output(timeout=5)
        assert output == {"type": "websocket.close", "code": NOT_YOURS}

    async_to_sync(listen)()
