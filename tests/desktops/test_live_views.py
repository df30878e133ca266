"""Live views at the console: what a ticket is good for, and that browser and worker meet, and part, through it."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import timezone

from console.actor import Actor
from console.models import AuditEntry, Membership, Token, User, Workspace
from desktops import live
from desktops.actions.views import NotLive, end_view, go_on, let_watch, open_view, wanted_of
from desktops.models import Computer, LiveView
from desktops.protocol import messages
from tests.factories import AssignmentFactory, ComputerFactory, TemplateVersionFactory, WorkerFactory

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def computer(workspace: Workspace) -> Computer:
    made: Computer = ComputerFactory(
        assignment=AssignmentFactory(worker=WorkerFactory(workspace=workspace)),
        template_version=TemplateVersionFactory(workspace=workspace),
    )
    return made


# ── tickets ────────────────────────────────────────────────────────────────────────────────────────


def test_a_ticket_opens_one_view_of_one_computer(computer: Computer, member: User) -> None:
    secret = let_watch(computer, actor=Actor.person(member))
    view = open_view(secret, member)
    assert view is not None
    assert (view.computer, view.user, view.drives) == (computer, member, False)
    assert open_view(secret, member) is None  # used
    assert wanted_of(computer.worker) == [view]
    assert AuditEntry.objects.get(action="computer.watched").user == member


def test_only_its_digest_is_kept(computer: Computer, member: User) -> None:
    secret = let_watch(computer, actor=Actor.person(member))
    row = LiveView.objects.values().get()
    assert secret not in str(row)
    assert secret not in str(list(AuditEntry.objects.values()))


def test_a_ticket_is_of_no_use_to_anybody_else(computer: Computer, member: User, owner: User) -> None:
    secret = let_watch(computer, actor=Actor.person(member))
    assert open_view(secret, owner) is None
    assert open_view("made-up", member) is None
    assert open_view(secret, member) is not None  # and not used up by them


def test_a_ticket_is_good_for_a_moment(computer: Computer, member: User) -> None:
    secret = let_watch(computer, actor=Actor.person(member))
    LiveView.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert open_view(secret, member) is None


def test_a_desktop_that_has_ended_cannot_be_seen(computer: Computer, member: User) -> None:
    before = let_watch(computer, actor=Actor.person(member))
    Computer.objects.update(stopped_at=timezone.now())
    computer.refresh_from_db()
    assert open_view(before, member) is None
    with pytest.raises(NotLive):
        let_watch(computer, actor=Actor.person(member))


def test_a_view_ends_with_the_membership(computer: Computer, member: User) -> None:
    view = open_view(let_watch(computer, actor=Actor.person(member)), member)
    late = let_watch(computer, actor=Actor.person(member))
    assert view is not None
    assert go_on(view)
    Membership.objects.filter(user=member).delete()
    assert not go_on(view)
    assert open_view(late, member) is None


def test_whoever_drives_by_their_role_drives_while_they_have_it(computer: Computer, admin: User) -> None:
    def let() -> str:
        return let_watch(computer, drives=True, by_role=True, actor=Actor.person(admin))

    view, late = open_view(let(), admin), let()
    own = open_view(let_watch(computer, drives=True, actor=Actor.person(admin)), admin)
    assert view is not None
    assert own is not None
    assert go_on(view)
    Membership.objects.filter(user=admin).update(role=Membership.Role.MEMBER)
    assert not go_on(view)
    assert open_view(late, admin) is None
    assert go_on(own)


def test_a_view_that_nobody_keeps_alive_is_not_open(computer: Computer, member: User) -> None:
    view = open_view(let_watch(computer, actor=Actor.person(member)), member)
    assert view is not None
    LiveView.objects.update(alive_until=timezone.now() - timedelta(seconds=1))
    assert wanted_of(computer.worker) == []
    assert go_on(view)
    assert wanted_of(computer.worker) == [view]
    end_view(view)
    assert not go_on(view)


def test_old_views_are_cleared_away(computer: Computer, member: User) -> None:
    let_watch(computer, actor=Actor.person(member))
    LiveView.objects.update(made_at=timezone.now() - timedelta(days=2))
    let_watch(computer, actor=Actor.person(member))
    assert LiveView.objects.count() == 1


# ── sockets ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(autouse=True)
async def _closed_connections() -> AsyncIterator[None]:
    """The communicator keeps channels from closing the threads' database connections."""
    yield
    await database_sync_to_async(lambda: connection.close())()


class Line:
    """One end of a view."""

    def __init__(self, path: str, *headers: tuple[bytes, bytes]) -> None:
        from console.asgi import application  # loads the middleware, which wants the tests' settings

        own = [(b"host", b"127.0.0.1"), (b"origin", b"http://127.0.0.1"), *headers]
        self.wire = WebsocketCommunicator(application, path, headers=own)

    async def dial(self) -> Line:
        assert (await self.wire.connect())[0]
        return self

    async def text(self) -> Any:
        return messages.tunnel_text.validate_json(await self.wire.receive_from(timeout=5))

    async def news(self) -> tuple[str, str]:
        news = await self.text()
        return news.state, news.detail

    async def closed(self) -> int:
        said = await self.wire.receive_output(timeout=8)
        assert said["type"] == "websocket.close", said
        return int(said.get("code") or 1000)


@pytest.fixture
async def lines() -> AsyncIterator[list[Line]]:
    """Hung up at the end."""
    opened: list[Line] = []
    yield opened
    for line in opened:
        await line.wire.disconnect()


@pytest.fixture
def browser(
    computer: Computer, client_for: Callable[[User], Client], lines: list[Line]
) -> Callable[..., Any]:
    """A browser with a ticket of its person's, and a session: `await browser(member)`."""

    async def watch(user: User, *, drives: bool = False, secret: str = "") -> tuple[Line, Client]:
        client = await sync_to_async(client_for)(user)
        ticket = secret or await sync_to_async(let_watch)(computer, drives=drives, actor=Actor.person(user))
        cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
        line = await Line(f"/ws/live/{ticket}", (b"cookie", cookie.encode())).dial()
        lines.append(line)
        return line, client

    return watch


@pytest.fixture
def tunnel(secret_for: Callable[..., str], lines: list[Line]) -> Callable[..., Any]:
    """The worker's end of the newest view."""

    async def dial(view: uuid.UUID | None = None, secret: str = "") -> Line:
        bearer = secret or await sync_to_async(secret_for)("workers:connect")
        newest = view or (await LiveView.objects.order_by("-made_at").afirst()).pk
        line = await Line(
            f"/ws/worker/tunnel/{newest}", (b"authorization", f"Bearer {bearer}".encode())
        ).dial()
        lines.append(line)
        return line

    return dial


async def test_pixels_go_one_way_and_input_the_other(member: User, browser: Any, tunnel: Any) -> None:
    watching, _ = await browser(member)
    assert (await watching.news())[0] == "waiting"
    worker = await tunnel()
    assert await worker.text() == messages.Seen(bytes=0)
    await worker.wire.send_to(text_data=messages.ViewNews(state="live").model_dump_json())
    assert await watching.news() == ("live", "")
    await worker.wire.send_to(bytes_data=b"RFB 003.008\n")
    assert await watching.wire.receive_from(timeout=5) == b"RFB 003.008\n"
    await watching.wire.send_to(bytes_data=b"RFB 003.008\n")
    assert await worker.wire.receive_from(timeout=5) == b"RFB 003.008\n"
    await watching.wire.send_to(text_data=messages.Seen(bytes=12).model_dump_json())
    assert await worker.text() == messages.Seen(bytes=12)
    await watching.wire.send_to(text_data=messages.Seen(bytes=9999).model_dump_json())
    assert await worker.text() == messages.Seen(bytes=12)  # nobody has seen more than was sent


async def test_the_worker_s_last_word_reaches_the_person(member: User, browser: Any, tunnel: Any) -> None:
    watching, _ = await browser(member)
    await watching.news()
    worker = await tunnel()
    last = messages.ViewNews(state="ended", detail="The desktop has ended.")
    await worker.wire.send_to(text_data=last.model_dump_json())
    assert await watching.news() == ("ended", "The desktop has ended.")
    await watching.closed()


async def test_whoever_leaves_ends_the_other_side_too(member: User, browser: Any, tunnel: Any) -> None:
    watching, _ = await browser(member)
    await watching.news()
    worker = await tunnel()
    await worker.text()
    await watching.wire.disconnect()
    await worker.closed()
    assert await LiveView.objects.filter(ended_at=None).acount() == 0

    again, _ = await browser(member)
    await again.news()
    worker = await tunnel()
    await worker.wire.disconnect()
    assert (await again.news())[0] == "again"


async def test_a_used_ticket_is_refused_in_words(member: User, computer: Computer, browser: Any) -> None:
    secret = await sync_to_async(let_watch)(computer, actor=Actor.person(member))
    first, _ = await browser(member, secret=secret)
    assert (await first.news())[0] == "waiting"
    second, _ = await browser(member, secret=secret)
    state, words = await second.news()
    assert (state, "used already" in words) == ("ended", True)
    await second.closed()


@pytest.mark.parametrize("what", ["sign-out", "password", "membership", "desktop"])
async def test_a_view_ends_with_what_it_hangs_on(
    what: str, member: User, browser: Any, tunnel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    watching, client = await browser(member)
    await watching.news()
    worker = await tunnel()
    await worker.text()
    if what == "sign-out":
        await sync_to_async(client.logout)()
    elif what == "password":
        member.set_password("another one altogether")
        await member.asave()
    elif what == "membership":
        await Membership.objects.filter(user=member).adelete()
    else:
        await Computer.objects.aupdate(stopped_at=timezone.now())
    assert (await watching.news())[0] == "ended"
    await worker.closed()


async def test_a_worker_that_does_not_come_is_told_of(
    member: User, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(live, "TUNNEL_SECONDS", 0.1)
    watching, _ = await browser(member)
    await watching.news()
    state, words = await watching.news()
    assert (state, "did not connect" in words) == ("again", True)


async def test_a_tunnel_is_for_its_own_workspace_s_worker_and_once(
    member: User, outsider: User, other_workspace: Workspace, browser: Any, tunnel: Any, secret_for: Any
) -> None:
    watching, _ = await browser(member)
    await watching.news()
    theirs = await sync_to_async(secret_for)("workers:connect", user=outsider, workspace=other_workspace)
    assert await (await tunnel(secret=theirs)).closed() == live.NO_VIEW
    reader = await sync_to_async(secret_for)("runs:read")
    assert await (await tunnel(secret=reader)).closed() == 4401
    assert await (await tunnel(view=uuid.uuid4())).closed() == live.NO_VIEW
    first = await tunnel()
    assert await first.text() == messages.Seen(bytes=0)
    assert await (await tunnel()).closed() == live.TAKEN


async def test_a_tunnel_that_reaches_another_process_is_sent_on(
    member: User, browser: Any, tunnel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching, _ = await browser(member)
    await watching.news()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(live, "_browsers", {})
        assert await (await tunnel()).closed() == messages.ELSEWHERE
    assert await (await tunnel()).text() == messages.Seen(bytes=0)


async def test_neither_side_fills_the_console_s_memory(member: User, browser: Any, tunnel: Any) -> None:
    watching, _ = await browser(member)
    await watching.news()
    worker = await tunnel()
    await worker.text()
    for _ in range(messages.INPUT_WINDOW // messages.INPUT_FRAME + 1):  # more than its worker has taken in
        await watching.wire.send_to(bytes_data=bytes(messages.INPUT_FRAME))
    assert (await watching.news())[0] == "ended"

    slow, _ = await browser(member)
    await slow.news()
    worker = await tunnel()
    await worker.text()
    for _ in range(messages.VIEW_WINDOW // messages.VIEW_FRAME + 2):  # more than the browser has seen
        await worker.wire.send_to(bytes_data=bytes(messages.VIEW_FRAME))
    sent = 0
    while isinstance(got := await slow.wire.receive_from(timeout=5), bytes):
        sent += len(got)
    assert messages.tunnel_text.validate_json(got).state == "ended"
    assert sent <= messages.VIEW_WINDOW + messages.VIEW_FRAME


async def test_the_worker_is_told_of_a_view_once(
    computer: Computer, member: User, browser: Any, secret_for: Any, lines: list[Line]
) -> None:
    bearer = await sync_to_async(secret_for)("workers:connect")
    door = await Line("/ws/worker", (b"authorization", f"Bearer {bearer}".encode())).dial()
    lines.append(door)
    hello = messages.Hello(
        version="1", instance=str(uuid.uuid4()), name=computer.worker.name, engine="fake", slots=1
    )
    await door.wire.send_to(text_data=hello.model_dump_json())
    assert messages.from_console.validate_json(await door.wire.receive_from(timeout=5)).type == "welcome"
    watching, _ = await browser(member, drives=True)
    await watching.news()
    told = messages.from_console.validate_json(await door.wire.receive_from(timeout=8))
    assert isinstance(told, messages.OpenView)
    assert (told.computer, told.drives, told.by) == (str(computer.pk), True, str(member))
    await door.wire.send_to(text_data=messages.Heartbeat().model_dump_json())
    assert await door.wire.receive_nothing(timeout=0.5)


async def test_a_program_watches_by_its_token_until_that_is_revoked(
    computer: Computer, member: User, secret_for: Any, lines: list[Line], tunnel: Any
) -> None:
    secret = await sync_to_async(secret_for)("computers:read", user=member)
    ticket = await sync_to_async(let_watch)(computer, actor=Actor.person(member))
    blind = await sync_to_async(secret_for)("runs:read", user=member)
    for bearer, state in ((blind, "ended"), (secret, "waiting")):
        line = await Line(f"/ws/watch/{ticket}", (b"authorization", f"Bearer {bearer}".encode())).dial()
        lines.append(line)
        got, words = await line.news()
        assert got == state
        if got == "ended":
            assert "Ask for another ticket" in words  # there is no page to reload
    worker = await tunnel()
    await worker.wire.send_to(bytes_data=b"RFB")
    assert await line.wire.receive_from(timeout=5) == b"RFB"
    await Token.objects.filter(user=member).aupdate(expiry=timezone.now())
    assert (await line.news())[0] == "ended"
