"""The doorbell: "something about this changed, look at the database". PostgreSQL's NOTIFY, nothing else.

A bell is a short name such as `run.<id>` or `worker.<id>`. NOTIFY is part of the transaction: it rings on commit and
never for what was rolled back, which no message queue beside the database can promise. A lost ring delays and never
loses, because every listener also looks by itself now and then and reads the truth from the tables.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator

import psycopg
from django.db import connection

CHANNEL = "deskyard"
log = logging.getLogger(__name__)


def ring(*bells: str) -> None:
    """Ring when the current transaction commits, or at once outside one. Equal rings of a transaction are folded."""
    with connection.cursor() as cursor:
        for bell in bells:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, bell])


def connection_arguments() -> dict[str, object]:
    """What psycopg needs to dial the console's own database."""
    arguments = connection.get_connection_params()
    for django_only in ("context", "cursor_factory", "prepare_threshold"):
        arguments.pop(django_only, None)
    return arguments


def listen_blocking(bell: str, seconds: float) -> Iterator[None]:
    """Yield when that bell has rung, and when it has not for `seconds`. For the supervisor's loop."""
    with psycopg.connect(**connection_arguments(), autocommit=True) as link:  # type: ignore[arg-type]
        link.execute(f"LISTEN {CHANNEL}")
        while True:
            end, rung = time.monotonic() + seconds, False
            while not rung and (left := end - time.monotonic()) > 0:
                rung = bell in {notice.payload for notice in link.notifies(timeout=left, stop_after=1)}
            yield


class Switchboard:
    """One LISTEN connection a process and event loop; consumers wait on the bells they care for."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def subscribe(self, bell: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set at each ring; the caller clears it. It is set once at the start: look first."""
        event = asyncio.Event()
        event.set()
        self._waiting[bell].add(event)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen(), name="doorbell")
        try:
            yield event
        finally:
            self._waiting[bell].discard(event)
            if not self._waiting[bell]:
                del self._waiting[bell]
            if not self._waiting and self._task is not None:
                self._task.cancel()
                self._task = None

    def _wake(self, bell: str | None = None) -> None:
        for name, events in self._waiting.items():
            if bell is None or name == bell:
                for event in events:
                    event.set()

    async def _listen(self) -> None:
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    **connection_arguments(),  # type: ignore[arg-type]
                    autocommit=True,
                ) as link:
                    await link.execute(f"LISTEN {CHANNEL}")
                    self._wake()  # whatever rang while nobody listened
                    async for notice in link.notifies():
                        self._wake(notice.payload)
            except psycopg.OperationalError as error:
                log.warning("Doorbell lost the database, dialling again: %s", error)
                await asyncio.sleep(1)


_boards: dict[asyncio.AbstractEventLoop, Switchboard] = {}


def switchboard() -> Switchboard:
    """The switchboard of the running event loop."""
    loop = asyncio.get_running_loop()
    for stale in [known for known in _boards if known.is_closed()]:
        del _boards[stale]
    return _boards.setdefault(loop, Switchboard())
