import asyncio
import threading
import time

import psycopg
import pytest
from channels.db import database_sync_to_async
from django.db import transaction

from console.doorbell import CHANNEL, connection_arguments, listen_blocking, ring, switchboard

pytestmark = pytest.mark.django_db(transaction=True)


@database_sync_to_async
def ring_and(commit: bool) -> None:
    with transaction.atomic():
        ring("run.1")
        transaction.set_rollback(not commit)


async def test_a_ring_wakes_who_listens_when_it_commits() -> None:
    async with switchboard().subscribe("run.1") as rung:
        await settle(rung)
        await ring_and(commit=True)
        await asyncio.wait_for(rung.wait(), 5)


async def test_what_was_rolled_back_never_rings() -> None:
    async with switchboard().subscribe("run.1") as rung:
        await settle(rung)
        await ring_and(commit=False)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(rung.wait(), 0.5)


async def test_other_bells_do_not_wake() -> None:
    async with switchboard().subscribe("run.2") as rung:
        await settle(rung)
        await ring_and(commit=True)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(rung.wait(), 0.5)


def test_who_blocks_goes_on_when_its_bell_rings() -> None:
    listening = listen_blocking("supervisor", 60)
    threading.Timer(0.1, ring_elsewhere, ["supervisor"]).start()
    began = time.monotonic()
    next(listening)
    assert time.monotonic() - began < 60


def test_who_blocks_waits_on_when_another_bell_rings() -> None:
    listening = listen_blocking("supervisor", 0.5)
    threading.Timer(0.1, ring_elsewhere, ["run.1"]).start()
    began = time.monotonic()
    next(listening)
    assert time.monotonic() - began >= 0.5


def ring_elsewhere(bell: str) -> None:
    with psycopg.connect(**connection_arguments(), autocommit=True) as link:  # type: ignore[arg-type]
        link.execute("SELECT pg_notify(%s, %s)", [CHANNEL, bell])


async def settle(rung: asyncio.Event) -> None:
    """Set at the start, and once more when the listening connection stands: look first, then wait."""
    rung.clear()
    await asyncio.wait_for(rung.wait(), 5)
    rung.clear()
