"""The worker's websocket: who may come in, what is refused, what is sent."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from typing import Any

import psycopg
import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.db import OperationalError, connection, connections
from django.utils import timezone

from console.actions.tokens import revoke_token
from console.actor import Actor
from console.doorbell import connection_arguments
from console.models import Token, User, Workspace
from desktops.actions import report
from desktops.models import Assignment, Worker
from desktops.protocol import messages
from runs.actions.create import create_run
from runs.actions.stop import cancel_run
from runs.models import Run
from runs.supervisor import one_pass
from tests.factories import document, sha256

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _closed_connections() -> AsyncIterator[None]:
    """The communicator keeps channels from closing the threads' database connections."""
    yield
    await database_sync_to_async(lambda: connection.close())()


@pytest.fixture
def dial(secret_for: Callable[..., str]) -> Callable[..., WebsocketCommunicator]:
    from console.asgi import application  # loads the middleware, which wants the tests' settings

    own = secret_for("workers:connect")

    def make(secret: str = own) -> WebsocketCommunicator:
        return WebsocketCommunicator(
            application, "/ws/worker", headers=[(b"authorization", f"Bearer {secret}".encode())]
        )

    return make


SPOOL = str(uuid.uuid4())


def connections_to_the_database() -> int:
    """All but those that listen to the doorbell."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query NOT LIKE 'LISTEN%'"
        )
        return int(cursor.fetchone()[0])


def hello(**changes: Any) -> dict[str, Any]:
    image = {"name": "basic", "version": 1, "digest": f"sha256:{sha256('basic@1')}"}
    fields = {"version": "1", "instance": SPOOL, "name": "door", "engine": "fake", "slots": 1}
    return {"type": "hello", "images": [image], **fields, **changes}


@pytest.fixture
async def welcomed(dial: Callable[..., WebsocketCommunicator]) -> AsyncIterator[WebsocketCommunicator]:
    link = dial()
    await link.connect()
    await link.send_json_to(hello())
    assert (await link.receive_json_from(5))["type"] == "welcome"
    yield link
    await link.disconnect()


@pytest.fixture
async def run(workspace: Workspace, owner: User, material: dict[str, Any]) -> Run:
    wanted = document("basics", ["task-1"])
    make = database_sync_to_async(create_run)
    return await make(workspace=workspace, document=wanted, actor=Actor.person(owner))


async def test_a_token_without_the_scope_is_shown_out(
    dial: Callable[..., WebsocketCommunicator], secret_for: Callable[..., str]
) -> None:
    link = dial(await database_sync_to_async(secret_for)("runs:read"))
    await link.connect()
    assert (await link.receive_output(5))["code"] == 4401


@pytest.mark.parametrize("said", ["hello", "heartbeat", "report"])
async def test_a_token_that_is_revoked_is_shown_out_with_its_next_word(
    dial: Callable[..., WebsocketCommunicator], workspace: Workspace, owner: User, said: str
) -> None:
    item = {"number": 1, "assignment": str(uuid.uuid4()), "epoch": 1, "record": {"kind": "verifying"}}
    words = {"hello": hello(), "heartbeat": {}, "report": {"items": [item]}}
    link = dial()
    await link.connect()
    if said != "hello":
        await link.send_json_to(hello())
        assert (await link.receive_json_from(5))["type"] == "welcome"
    token = await Token.objects.for_workspace(workspace).aget()
    await database_sync_to_async(revoke_token)(token, actor=Actor.person(owner))
    await link.send_json_to({"type": said, **words[said]})
    assert (await link.receive_output(5))["code"] == 4401
    await link.disconnect()
    assert not await Worker.objects.filter(connected=True).aexists()


async def test_a_worker_whose_token_belongs_to_nobody_here_any_more_is_shown_out(
    welcomed: WebsocketCommunicator, workspace: Workspace, owner: User
) -> None:
    await workspace.memberships.filter(user=owner).adelete()
    await welcomed.send_json_to({"type": "heartbeat"})
    assert (await welcomed.receive_output(5))["code"] == 4401


async def test_an_unknown_message_is_refused_and_the_connection_goes_on(
    welcomed: WebsocketCommunicator,
) -> None:
    await welcomed.send_json_to({"type": "gossip"})
    assert (await welcomed.receive_json_from(5))["code"] == "unknown_message"
    await welcomed.send_to(text_data="not json")
    assert (await welcomed.receive_json_from(5))["code"] == "bad_message"
    await welcomed.send_json_to({"type": "report", "items": []})
    assert (await welcomed.receive_json_from(5))["code"] == "bad_message"
    await welcomed.send_json_to({"type": "heartbeat"})
    assert await welcomed.receive_nothing(0.2)


async def test_an_oversized_message_is_refused(welcomed: WebsocketCommunicator) -> None:
    await welcomed.send_to(text_data=json.dumps({"type": "gossip", "text": "x" * messages.MAX_FRAME}))
    assert (await welcomed.receive_json_from(5))["code"] == "too_large"
    await welcomed.send_to(text_data="é" * (messages.MAX_FRAME * 2 // 3))  # bytes count, not characters
    assert (await welcomed.receive_json_from(5))["code"] == "too_large"


async def test_a_report_on_somebody_elses_assignment_is_refused(welcomed: WebsocketCommunicator) -> None:
    item = {"number": 1, "assignment": str(uuid.uuid4()), "epoch": 1, "record": {"kind": "verifying"}}
    await welcomed.send_json_to({"type": "report", "items": [item]})
    assert (await welcomed.receive_json_from(5))["code"] == "unknown_assignment"
    assert await welcomed.receive_json_from(5) == {"type": "acknowledge", "applied": 1}


async def test_another_protocol_is_told_so(dial: Callable[..., WebsocketCommunicator]) -> None:
    link = dial()
    await link.connect()
    await link.send_json_to(hello(protocol=99))
    assert "protocol" in (await link.receive_json_from(5))["detail"]


async def test_an_offer_comes_by_the_bell_and_a_stop_follows(
    welcomed: WebsocketCommunicator, run: Run, owner: User
) -> None:
    await database_sync_to_async(one_pass)()
    offer = await welcomed.receive_json_from(5)
    assert (offer["type"], offer["kind"], offer["payload"]["run_id"]) == ("offer", "attempt", str(run.pk))
    held = {"assignment": offer["assignment"], "epoch": offer["epoch"]}
    await welcomed.send_json_to({"type": "heartbeat", "held": [held]})
    await database_sync_to_async(cancel_run)(run, actor=Actor.person(owner))
    stop = await welcomed.receive_json_from(5)
    assert (stop["type"], stop["assignment"]) == ("stop", offer["assignment"])


async def test_an_offer_is_repeated_until_the_heartbeat_names_it(
    welcomed: WebsocketCommunicator, run: Run
) -> None:
    await database_sync_to_async(one_pass)()
    first = await welcomed.receive_json_from(5)
    await welcomed.send_json_to({"type": "heartbeat", "held": []})
    assert await welcomed.receive_json_from(5) == first


async def test_what_nobody_was_there_to_take_is_offered_once_it_is_paid_ahead_again(
    welcomed: WebsocketCommunicator, run: Run
) -> None:
    await database_sync_to_async(one_pass)()
    offer = await welcomed.receive_json_from(5)
    past = timezone.now() - timedelta(seconds=1)
    await Assignment.objects.filter(pk=offer["assignment"]).aupdate(paid_until=past)
    await welcomed.send_json_to({"type": "heartbeat", "held": []})
    assert await welcomed.receive_nothing(0.5)
    await database_sync_to_async(one_pass)()
    assert (await welcomed.receive_json_from(5))["type"] == "extend"
    await welcomed.send_json_to({"type": "heartbeat", "held": []})
    again = await welcomed.receive_json_from(5)
    assert (again["type"], again["assignment"]) == ("offer", offer["assignment"])
    assert datetime.fromisoformat(again["paid_until"]) > timezone.now()


async def test_a_worker_that_is_leaving_is_offered_nothing(welcomed: WebsocketCommunicator, run: Run) -> None:
    await welcomed.send_json_to({"type": "heartbeat", "held": [], "leaving": True})
    assert await welcomed.receive_nothing(0.5)
    await database_sync_to_async(one_pass)()
    assert not await Assignment.objects.aexists()
    await welcomed.send_json_to({"type": "heartbeat", "held": []})
    assert await welcomed.receive_nothing(0.5)
    await database_sync_to_async(one_pass)()
    assert (await welcomed.receive_json_from(5))["type"] == "offer"


async def test_the_newest_connection_of_a_spool_wins(
    welcomed: WebsocketCommunicator, dial: Callable[..., WebsocketCommunicator]
) -> None:
    newer = dial()
    await newer.connect()
    await newer.send_json_to(hello())
    await newer.receive_json_from(5)
    await welcomed.send_json_to({"type": "heartbeat"})
    assert (await welcomed.receive_output(5))["code"] == 4409
    await newer.disconnect()


async def test_a_second_worker_of_the_same_name_is_turned_away_while_the_first_is_there(
    welcomed: WebsocketCommunicator, dial: Callable[..., WebsocketCommunicator]
) -> None:
    second = dial()
    await second.connect()
    await second.send_json_to(hello(instance=str(uuid.uuid4())))
    refusal = await second.receive_json_from(5)
    assert (refusal["type"], refusal["code"]) == ("refused", "name_taken")
    assert "DESKYARD_WORKER_NAME" in refusal["detail"]
    assert (await second.receive_output(5))["code"] == 4409
    await welcomed.send_json_to({"type": "heartbeat"})
    assert await welcomed.receive_nothing(0.2)


async def test_a_new_worker_takes_the_name_of_one_that_has_left(
    dial: Callable[..., WebsocketCommunicator],
) -> None:
    for _ in range(2):
        link = dial()
        await link.connect()
        await link.send_json_to(hello(instance=str(uuid.uuid4())))
        assert (await link.receive_json_from(5))["type"] == "welcome"
        await link.disconnect()


async def test_a_socket_that_is_cut_while_it_is_being_closed_leaves_no_connection_to_the_database(
    dial: Callable[..., WebsocketCommunicator], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", None)  # none closes by itself
    before = await database_sync_to_async(connections_to_the_database)()
    link = dial()
    await link.connect()
    await link.send_json_to(hello())
    assert (await link.receive_json_from(5))["type"] == "welcome"
    assert await database_sync_to_async(connections_to_the_database)() > before
    while not link.future.done():
        link.future.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await link.future
    async with asyncio.timeout(10):
        while await database_sync_to_async(connections_to_the_database)() > before:
            await asyncio.sleep(0.02)


async def test_a_superseded_sockets_reports_are_not_taken(
    welcomed: WebsocketCommunicator, dial: Callable[..., WebsocketCommunicator]
) -> None:
    newer = dial()
    await newer.connect()
    await newer.send_json_to(hello())
    await newer.receive_json_from(5)
    item = {"number": 1, "assignment": str(uuid.uuid4()), "epoch": 1, "record": {"kind": "verifying"}}
    await welcomed.send_json_to({"type": "report", "items": [item]})
    assert (await welcomed.receive_output(5))["code"] == 4409
    await newer.disconnect()


@pytest.mark.parametrize(
    "fields",
    [
        {"instance": "not-a-uuid"},
        {"version": "v" * 51},
        {"name": "a\x00b"},
        {"cpus": -1},
        {"memory_mb": 2**40},
        {"isolation": "i" * 501},
        {"name": "two\nlines"},
    ],
)
async def test_a_hello_that_cannot_be_stored_is_told_so(
    dial: Callable[..., WebsocketCommunicator], fields: dict[str, Any]
) -> None:
    link = dial()
    await link.connect()
    await link.send_json_to(hello(**fields))
    refused = await link.receive_json_from(5)
    assert (refused["code"], next(iter(fields)) in refused["detail"]) == ("bad_message", True)
    await link.send_json_to(hello())
    assert (await link.receive_json_from(5))["type"] == "welcome"


@pytest.mark.parametrize(
    "fields",
    [
        {"swept_at": "0001-01-01T00:00:00+14:00"},
        {"swept_at": "2026-01-01T00:00:00"},
        {"disk_free_mb": -1},
        {"swept_left": 70_000},
    ],
)
async def test_a_heartbeat_that_cannot_be_stored_is_told_so(
    welcomed: WebsocketCommunicator, fields: dict[str, Any]
) -> None:
    await welcomed.send_json_to({"type": "heartbeat", **fields})
    assert (await welcomed.receive_json_from(5))["code"] == "bad_message"


async def test_a_heartbeat_that_names_no_assignment_renews_nothing(welcomed: WebsocketCommunicator) -> None:
    await welcomed.send_json_to({"type": "heartbeat", "held": [{"assignment": "\x00", "epoch": 1}]})
    assert await welcomed.receive_nothing(0.2)


async def test_a_frame_nested_too_deeply_is_refused(welcomed: WebsocketCommunicator) -> None:
    await welcomed.send_to(text_data="[" * 200_000)
    assert (await welcomed.receive_json_from(5))["code"] == "bad_message"


async def test_hello_is_said_once_a_socket(welcomed: WebsocketCommunicator) -> None:
    await welcomed.send_json_to(hello(name="somebody else"))
    assert (await welcomed.receive_json_from(5))["code"] == "bad_message"


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "computer_started", "computer": "no uuid", "engine": "fake"},
        {"kind": "computer_started", "computer": str(uuid.uuid4()), "engine": "e" * 21},
        {"kind": "computer_ready", "computer": "no uuid", "seconds": 1},
        {"kind": "setup_done", "seconds": 1, "steps": 1, "screenshot": sha256("a"), "at": "0001-01-01T00:00+14:00"},
        {"kind": "verdict", "reward": float("nan"), "evidence": [], "checker": "c", "checker_digest": "d", "seconds": 1,
         "screenshot": sha256("a")},
    ],
)  # fmt: skip
async def test_a_record_that_cannot_be_stored_is_refused_and_the_next_one_is_applied(
    welcomed: WebsocketCommunicator, run: Run, record: dict[str, Any]
) -> None:
    await database_sync_to_async(one_pass)()
    offer = await welcomed.receive_json_from(5)
    about = {"assignment": offer["assignment"], "epoch": offer["epoch"]}
    now = "2026-11-01T10:00:00Z"
    items = [
        {"number": 1, **about, "record": {"at": now, **record}},
        {"number": 2, **about, "record": {"kind": "verifying", "at": now}},
    ]
    await welcomed.send_json_to({"type": "report", "items": items})
    refused = await welcomed.receive_json_from(5)
    assert (refused["code"], refused["number"]) == ("bad_record", 1)
    assert await welcomed.receive_json_from(5) == {"type": "acknowledge", "applied": 2}
    assert await run.attempts.filter(status="verifying").aexists()


async def test_a_nul_in_what_a_desktop_held_is_kept_as_a_mark(
    welcomed: WebsocketCommunicator, run: Run
) -> None:
    await database_sync_to_async(one_pass)()
    offer = await welcomed.receive_json_from(5)
    evidence = {"label": "a\x00b", "metric": "m", "found": {"\x00": ["x\x00"]}, "reward": 1.0}
    verdict = {
        "kind": "verdict",
        "at": "2026-11-01T10:00:00Z",
        "reward": 1.0,
        "evidence": [evidence],
        "checker": "c",
        "checker_digest": "d",
        "seconds": 1,
        "screenshot": sha256("a"),
    }
    about = {"assignment": offer["assignment"], "epoch": offer["epoch"]}
    await welcomed.send_json_to({"type": "report", "items": [{"number": 1, **about, "record": verdict}]})
    assert await welcomed.receive_json_from(5) == {"type": "acknowledge", "applied": 1}
    assert await run.attempts.filter(outcome="success").aexists()


async def test_a_worker_that_must_wait_keeps_no_other_waiting(
    welcomed: WebsocketCommunicator, dial: Callable[..., WebsocketCommunicator], workspace: Workspace
) -> None:
    other = dial()
    await other.connect()
    await other.send_json_to(hello(name="other", instance=str(uuid.uuid4())))
    assert (await other.receive_json_from(5))["type"] == "welcome"
    report = {
        "type": "report",
        "items": [
            {"number": 1, "assignment": str(uuid.uuid4()), "epoch": 1, "record": {"kind": "verifying"}}
        ],
    }
    key = await Worker.objects.values_list("pk", flat=True).aget(workspace=workspace, name="door")
    with psycopg.connect(**connection_arguments()) as link:  # until its transaction ends
        link.execute("SELECT 1 FROM desktops_worker WHERE id = %s FOR UPDATE", [key])
        await welcomed.send_json_to(report)
        assert await welcomed.receive_nothing(0.5)
        await other.send_json_to(report)
        assert (await other.receive_json_from(5))["code"] == "unknown_assignment"
    assert (await welcomed.receive_json_from(5))["code"] == "unknown_assignment"
    await other.disconnect()


async def test_a_worker_is_sent_away_to_dial_again_while_the_database_is_away(
    welcomed: WebsocketCommunicator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(**_: Any) -> None:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(report, "heartbeat", away)
    await welcomed.send_json_to({"type": "heartbeat", "held": []})
    closed = await welcomed.receive_output(5)
    assert closed["type"] == "websocket.close"
    assert 4000 <= closed["code"] < 5000  # Daphne sends no other


async def test_a_socket_of_no_address_is_refused() -> None:
    from console.asgi import application

    link = WebsocketCommunicator(application, "/ws/nowhere")
    connected, code = await link.connect()
    assert (connected, code) == (False, 4404)
