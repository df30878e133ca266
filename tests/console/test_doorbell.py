import asyncio

import pytest
from channels.db import database_sync_to_async
from django.db import transaction

from console.doorbell import ring, switchboard

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


async def settle(rung: asyncio.Event) -> None:
    """Set at the start, and once more when the listening connection stands: look first, then wait."""
    rung.clear()
    await asyncio.wait_for(rung.wait(), 5)
    rung.clear()
