"""The worker's door: one websocket a worker, dialled by it, authenticated by a `workers:connect` token.

The consumer keeps no state that matters. What the worker must be told is read from the database each time its bell
rings and with every heartbeat, so a lost ring only delays.
"""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from asgiref.sync import ThreadSensitiveContext
from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, connections
from django.urls import path
from django.utils import timezone
from pydantic import ValidationError

from console.api.authentication import WorkspaceTokenAuthentication
from console.api.problems import Problem
from console.doorbell import switchboard
from console.models import Scope, Token
from desktops.actions import asks, drafts, report, states, views
from desktops.models import Assignment, LiveView, Worker
from desktops.protocol import messages

log = logging.getLogger(__name__)
# Of the range left to applications: Daphne cannot send the standard's own, such as 1013 (try again later).
UNAUTHORISED, SUPERSEDED, BAD_HELLO, TRY_AGAIN = 4401, 4409, 4400, 4503

T = TypeVar("T")


class Revoked(Exception):
    """The token that this socket was opened with is no longer one that connects workers."""


def token_of(header: bytes, scope: Scope = Scope.WORKERS_CONNECT) -> Token | None:
    """The live token of an `Authorization: Bearer …` header that has the scope."""
    scheme, _, secret = header.decode("latin-1").partition(" ")
    if scheme.lower() != "bearer":
        return None
    try:
        token = WorkspaceTokenAuthentication().live_token(secret.strip())
    except Problem:
        return None
    return token if scope in token.scopes else None


class WorkerConsumer(AsyncWebsocketConsumer):
    worker: Worker | None = None
    pusher: asyncio.Task[None] | None = None

    async def __call__(self, *arguments: Any) -> None:
        """In a thread of its own for the database: one worker's wait, for a lock or a disk, is no other's."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="worker-socket")
        try:
            async with ThreadSensitiveContext(executor=thread):
                await super().__call__(*arguments)
        finally:  # without awaiting anything: also when this is cancelled once more
            if self.pusher is not None:
                self.pusher.cancel()
            thread.submit(connections.close_all)
            thread.shutdown(wait=False)

    async def connect(self) -> None:
        self.authorization = dict(self.scope["headers"]).get(b"authorization", b"")
        self.token = await database_sync_to_async(token_of)(self.authorization)
        self.connection = uuid.uuid4()
        self.sent: dict[str, tuple[int, Any, str]] = {}
        self.asked: set[str] = set()
        self.forgetting: set[str] = set()  # told since the last list of states
        self.discarding: set[str] = set()  # digests of images that it was told to remove
        self.shown: set[uuid.UUID] = set()  # live views that it was told of and that go on
        await self.accept()
        if self.token is None:
            await self.close(UNAUTHORISED)

    async def disconnect(self, code: int) -> None:
        if self.pusher is not None:
            self.pusher.cancel()
        if self.worker is not None:
            await database_sync_to_async(report.disconnect)(worker=self.worker, connection=self.connection)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.token is None:
            return
        if text_data is None or len(text_data.encode("utf-8", "surrogatepass")) > messages.MAX_FRAME:
            await self._refuse("too_large", f"Frames are JSON text of at most {messages.MAX_FRAME} bytes.")
            return
        try:
            message = messages.from_worker.validate_json(text_data)
        except ValidationError as error:
            await self._refuse(*_what_is_wrong(text_data, error))
            return
        try:
            await self._handle(message)
        except report.Superseded:
            await self.close(SUPERSEDED)
        except Revoked:
            await self.close(UNAUTHORISED)
        except (DataError, IntegrityError) as error:
            await self._refuse("bad_message", f"It holds a value that cannot be stored: {error}"[:500])
        except (OperationalError, InterfaceError) as error:
            # The database is away. Nothing was stored or acknowledged: the worker dials again and sends it again.
            log.warning("Closing the socket of %s: %s", self.worker, error)
            await self.close(TRY_AGAIN)

    async def _handle(self, message: messages.FromWorker) -> None:
        if isinstance(message, messages.Hello):
            await self._hello(message)
        elif self.worker is None:
            await self.close(BAD_HELLO)
        elif isinstance(message, messages.Heartbeat):
            wants = await self._do(beat, self.worker, self.connection, message)
            if message.states is not None:  # what should be gone and is listed still is told to go again
                self.forgetting.clear()
            await self._tell(wants, {item.assignment for item in message.held})
        else:
            applied = await self._do(
                report.apply_report, worker=self.worker, connection=self.connection, report=message
            )
            for problem in applied.refused:
                await self._send(problem)
            await self._send(messages.Acknowledge(applied=applied.number))

    async def _hello(self, hello: messages.Hello) -> None:
        if hello.protocol != messages.PROTOCOL:
            await self._refuse(
                "bad_message",
                f"This console speaks protocol {messages.PROTOCOL}, the worker {hello.protocol}.",
            )
            await self.close(BAD_HELLO)
            return
        if self.worker is not None:
            await self._refuse("bad_message", "This socket has said hello; dial again to say it anew.")
            return
        try:
            self.worker = await self._do(
                report.connect, token=self.token, hello=hello, connection=self.connection
            )
        except report.NameTaken as taken:
            await self._refuse("name_taken", str(taken))
            await self.close(SUPERSEDED)
            return
        await self._send(messages.Welcome(worker=str(self.worker.pk), applied=self.worker.applied))
        if self.pusher is None:
            self.pusher = asyncio.create_task(self._push_on_bell())

    async def _do(self, act: Callable[..., T], *said: Any, **named: Any) -> T:
        """In the database's thread. Raises Revoked: a token may end at any time after it was shown."""

        def while_live() -> T:
            if token_of(self.authorization) is None:
                raise Revoked
            return act(*said, **named)

        return await database_sync_to_async(while_live)()

    async def _push_on_bell(self) -> None:
        worker = self.worker
        assert worker is not None
        async with switchboard().subscribe(f"worker.{worker.pk}") as rung:
            while True:
                await rung.wait()
                rung.clear()
                try:
                    await self._push(None)
                except (OperationalError, InterfaceError) as error:
                    log.warning("Closing the socket of %s: %s", worker, error)
                    await self.close(TRY_AGAIN)
                    return

    async def _push(self, held: set[str] | None) -> None:
        await self._tell(await database_sync_to_async(wants_of)(self.worker), held)

    async def _tell(self, wants: Wants, held: set[str] | None) -> None:
        """Send what the worker does not know yet; what its heartbeat (`held`) does not name is sent again."""
        for assignment in wants.assignments:
            key = str(assignment.pk)
            paid, status = assignment.paid_until, assignment.status
            before = self.sent.get(key)
            if status == Assignment.Status.STOPPING:
                if before is None or before[2] != status or held is not None:
                    await self._send(
                        messages.Stop(
                            assignment=key,
                            epoch=assignment.epoch,
                            kind=assignment.kind,
                            reason=assignment.stop_reason,
                        )
                    )
            elif before is None or (held is not None and key not in held):
                if paid < timezone.now():
                    continue  # nobody was there to take it; the supervisor pays it ahead again, and rings
                await self._send(
                    messages.Offer(
                        assignment=key,
                        epoch=assignment.epoch,
                        kind=assignment.kind,
                        payload=assignment.payload,
                        paid_until=paid,
                    )
                )
            elif before[1] != paid:
                await self._send(messages.Extend(assignment=key, epoch=assignment.epoch, paid_until=paid))
            self.sent[key] = (assignment.epoch, paid, status)
        for ask in wants.asks:
            if ask.ask not in self.asked:
                self.asked.add(ask.ask)
                await self._send(ask)
        for name in wants.states_to_forget:
            if name not in self.forgetting:
                self.forgetting.add(name)
                await self._send(messages.Forget(state=name))
        # One that was wanted meanwhile may have been made again.
        self.discarding.intersection_update(wants.images_to_forget)
        for digest in wants.images_to_forget:
            if digest not in self.discarding:
                self.discarding.add(digest)
                await self._send(messages.ForgetImage(digest=digest))
        await self._show({view.pk: view for view in wants.views})

    async def _show(self, wanted: dict[uuid.UUID, LiveView]) -> None:
        """Once a connection: a worker that has the tunnel already leaves it at that."""
        for pk in wanted.keys() - self.shown:
            view = wanted[pk]
            assignment = view.computer.assignment
            message = messages.OpenView(
                view=str(pk),
                assignment=str(assignment.pk),
                epoch=assignment.epoch,
                computer=str(view.computer_id),
                drives=view.drives,
                by=str(view.user),
            )
            await self._send(message)
        self.shown = set(wanted)

    async def _send(self, message: Any) -> None:
        await self.send(text_data=message.model_dump_json())

    async def _refuse(self, code: str, detail: str) -> None:
        log.warning("Refused a frame of %s: %s (%s)", self.worker or "an unknown worker", code, detail)
        await self._send(messages.Refused(code=code, detail=detail))


class Wants(NamedTuple):
    """What a worker should know or do, as the database has it now."""

    assignments: list[Assignment]
    asks: list[messages.Ask]
    states_to_forget: list[str]
    images_to_forget: list[str]
    views: list[LiveView]


def wants_of(worker: Worker) -> Wants:
    return Wants(
        list(Assignment.objects.filter(worker=worker).live().order_by("offered_at")),
        asks.to_ask(worker),
        states.to_forget(worker),
        drafts.images_to_forget(worker),
        views.wanted_of(worker),
    )


def beat(worker: Worker, connection: uuid.UUID, message: messages.Heartbeat) -> Wants:
    """Hear a heartbeat, which renews leases first. Raises Superseded."""
    report.heartbeat(worker=worker, connection=connection, beat=message)
    if message.states is not None:
        states.reconcile(worker, message.states, limit_mb=message.states_limit_mb)
    return wants_of(worker)


def _what_is_wrong(text: str, error: ValidationError) -> tuple[str, str]:
    try:
        kind = json.loads(text).get("type")
    except (ValueError, AttributeError, RecursionError):
        return "bad_message", "A frame is one JSON object with a `type`."
    if kind not in ("hello", "heartbeat", "report"):
        return "unknown_message", f"There is no message of type {str(kind)[:50]!r}."
    return "bad_message", "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:5])


worker_sockets = [path("ws/worker", WorkerConsumer.as_asgi())]
