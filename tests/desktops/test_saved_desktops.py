"""Over the worker's socket: what it has saved is known, and what nobody wants is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator

from console.models import Workspace
from desktops.actions import drafts, states
from desktops.models import State, TemplateVersion, Worker
from tests.desktops.test_worker_door import _closed_connections, dial, welcomed
from tests.factories import TemplateVersionFactory

__all__ = ["_closed_connections", "dial", "welcomed"]  # fixtures
pytestmark = pytest.mark.django_db(transaction=True)


def beat(*names: str) -> dict[str, Any]:
    listed = [{"name": name, "digest": "sha256:1", "size_bytes": 1 << 30} for name in names]
    return {"type": "heartbeat", "states": listed, "states_limit_mb": 8000}


async def test_a_state_that_nobody_wants_is_told_to_go_until_it_is_named_no_longer(
    welcomed: WebsocketCommunicator,
) -> None:
    await welcomed.send_json_to(beat("warm-1", "prefix-2"))
    assert await welcomed.receive_nothing(1)
    let_go = database_sync_to_async(lambda: states.no_longer_wanted(State.objects.filter(name="prefix-2")))
    assert await let_go() == 1
    told = {"type": "forget", "state": "prefix-2"}
    assert await welcomed.receive_json_from(5) == told, "the bell was rung"
    await welcomed.send_json_to(beat("warm-1", "prefix-2"))
    assert await welcomed.receive_json_from(5) == told, "it is there still"
    await welcomed.send_json_to(beat("warm-1"))
    assert await welcomed.receive_nothing(1)
    rows = await database_sync_to_async(lambda: dict(State.objects.values_list("name", "status")))()
    assert rows == {"warm-1": "held", "prefix-2": "gone"}
    worker = await database_sync_to_async(Worker.objects.get)(name="door")
    assert (worker.states_bytes, worker.states_limit_mb) == (1 << 30, 8000)


async def test_a_heartbeat_that_says_nothing_of_states_changes_none(welcomed: WebsocketCommunicator) -> None:
    await welcomed.send_json_to(beat("warm-1"))
    await welcomed.send_json_to({"type": "heartbeat"})
    assert await welcomed.receive_nothing(1)
    assert await database_sync_to_async(lambda: State.objects.get().status)() == "held"


async def test_a_discarded_image_is_told_to_go_once_and_again_when_it_was_wanted_meanwhile(
    welcomed: WebsocketCommunicator,
) -> None:
    @database_sync_to_async
    def want(digest: str) -> None:
        draft = TemplateVersionFactory(workspace=Workspace.objects.get(slug="lab"), name="mine", draft=True)
        TemplateVersion.objects.filter(pk=draft.pk).update(digest=digest)

    @database_sync_to_async
    def discard() -> None:
        drafts.drop(TemplateVersion.objects.get(template__name="mine"))

    told = {"type": "forget_image", "digest": "sha256:1"}
    for _ in range(2):
        await want("sha256:1")
        await welcomed.send_json_to({"type": "heartbeat"})
        assert await welcomed.receive_nothing(1)
        await discard()
        await welcomed.send_json_to({"type": "heartbeat"})
        assert await welcomed.receive_json_from(10) == told
        await welcomed.send_json_to({"type": "heartbeat"})
        assert await welcomed.receive_nothing(1)
