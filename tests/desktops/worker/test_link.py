"""Between spool and console nothing is lost, nothing doubled, and nothing waits for anything it need not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from desktops.protocol import messages
from desktops.worker.blobs import BlobStore, Uploader
from desktops.worker.link import Link
from desktops.worker.spool import Spool
from desktops.worker.testing import TOKEN, ConsoleDouble


class Ears:
    """A listener that writes down what it hears."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.heard: list[object] = []
        self.stale: list[tuple[str, int | None]] = []
        self.refused_blobs: list[str] = []

    def on_offer(self, offer):
        self.heard.append(offer)

    on_extend = on_stop = on_forget = on_forget_image = on_ask = on_view = on_offer

    def on_stale(self, assignment, epoch):
        self.stale.append((assignment, epoch))

    def on_blob_refused(self, assignment, epoch, detail):
        self.refused_blobs.append(detail)

    def hello(self):
        return messages.Hello(
            version="0", instance=self.spool.instance, name="w", engine="fake", slots=1, held=[]
        )

    def heartbeat(self):
        return messages.Heartbeat()


class Desk:
    """A spool, its blobs, and a link that runs."""

    def __init__(self, tmp_path, console: ConsoleDouble, token: str = TOKEN) -> None:
        self.spool = Spool(tmp_path / "spool", ballast=0)
        self.blobs = BlobStore(tmp_path / "blobs")
        self.ears = Ears(self.spool)
        self.uploader = Uploader(self.blobs, url=console.url, token=token)
        self.link = Link(
            url=console.url.replace("http", "ws") + "/ws/worker",
            token=token,
            spool=self.spool,
            blobs=self.blobs,
            uploader=self.uploader,
            listener=self.ears,
        )

    def say(self, number: int, *, assignment: str = "a", blob: bytes | None = None, pad: int = 0) -> None:
        record: dict[str, object] = {"kind": "x", "n": number, "pad": "p" * pad}
        if blob is not None:
            record["screenshot"] = self.blobs.put(blob)
        digests = [str(record["screenshot"])] if blob is not None else []
        self.spool.append(assignment, 1, record, blobs=digests)
        self.blobs.settled(digests)


@asynccontextmanager
async def running(desk: Desk):
    task = asyncio.create_task(desk.link.run())
    try:
        yield desk
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        desk.uploader.close()
        desk.spool.close()


@pytest.fixture
async def console():
    async with ConsoleDouble() as console:
        yield console


def numbers(console: ConsoleDouble) -> list[int]:
    return [item.record["n"] for item in console.items]


async def test_records_arrive_in_order_and_are_forgotten_once_acknowledged(tmp_path, console):
    desk = Desk(tmp_path, console)
    for number in range(450):
        desk.say(number)
    async with running(desk):
        await console.until(lambda: len(console.items) == 450)
        desk.say(450)
        assert await desk.link.drained(5)
        assert numbers(console) == list(range(451))
        assert desk.spool.after(0, limit=1) == []


async def test_a_cut_in_the_middle_of_a_report_loses_and_doubles_nothing(tmp_path, console):
    desk = Desk(tmp_path, console)
    for number in range(300):
        desk.say(number, pad=200)
    console.cut_after_bytes = 1000  # in the middle of the first report, which is compressed
    async with running(desk):
        await console.until(lambda: len(console.hellos) == 2)
        for number in range(300, 400):
            await asyncio.to_thread(desk.say, number, pad=200)
            if number % 25 == 0:
                console.cut()
        await console.until(lambda: len(console.items) == 400)
        assert numbers(console) == list(range(400))
        assert len(console.hellos) > 1


async def test_a_lost_acknowledgement_is_made_good_by_the_next_welcome(tmp_path, console):
    console.acknowledging = False
    desk = Desk(tmp_path, console)
    async with running(desk):
        desk.say(0)
        await console.until(lambda: console.items)
        assert desk.spool.last == 1
        assert desk.spool.acknowledged == 0
        console.acknowledging = True
        console.cut()
        await console.until(lambda: len(console.hellos) == 2)
        assert await desk.link.drained(5)
        assert numbers(console) == [0]


async def test_what_was_recorded_without_a_console_is_sent_when_there_is_one(tmp_path, console):
    desk = Desk(tmp_path, console)
    await console.down()
    async with running(desk):
        desk.say(0, blob=b"screen")
        assert not await desk.link.drained(0.3)
        await console.up()
        await console.until(lambda: console.items)
        assert list(console.blobs.values()) == [b"screen"]


async def test_a_blob_is_stored_before_the_record_that_names_it_is_sent(tmp_path, console):
    desk = Desk(tmp_path, console)
    for number in range(30):
        desk.say(number, blob=b"screen %d" % number)
    async with running(desk):
        await console.until(lambda: len(console.items) == 30)
        assert console.without_blob == []
        assert await desk.link.drained(5)
        await asyncio.wait_for(_until(lambda: not list((tmp_path / "blobs").glob("*/*"))), 5)


async def test_the_same_screen_is_uploaded_once(tmp_path, console):
    desk = Desk(tmp_path, console)
    async with running(desk):
        for number in range(5):
            desk.say(number, blob=b"the same")
            assert await desk.link.drained(5)
        assert len(console.puts) == 1


async def test_an_upload_is_tried_again_until_the_console_can_take_it(tmp_path, console):
    desk = Desk(tmp_path, console)
    console.blob_status = 503
    async with running(desk):
        desk.say(0, blob=b"screen")
        desk.say(1)
        assert not await desk.link.drained(0.5)
        assert console.items == []
        console.blob_status = 201
        await console.until(lambda: len(console.items) == 2)
        assert console.without_blob == []


async def test_a_blob_the_console_will_never_take_is_told_and_does_not_block(tmp_path, console):
    desk = Desk(tmp_path, console)
    console.blob_status = 413
    async with running(desk):
        desk.say(0, blob=b"screen")
        desk.say(1)
        await console.until(lambda: len(console.items) == 2)
        assert "413" in desk.ears.refused_blobs[0]


async def test_large_records_are_split_over_frames(tmp_path, console):
    desk = Desk(tmp_path, console)
    for number in range(6):
        desk.say(number, pad=400_000)
    async with running(desk):
        await console.until(lambda: len(console.items) == 6)
        assert numbers(console) == list(range(6))


async def test_heartbeats_come_and_a_change_is_said_at_once(tmp_path, console):
    desk = Desk(tmp_path, console)
    async with running(desk):
        await console.until(lambda: console.heartbeats)
        before = len(console.heartbeats)
        desk.link.beat()
        await console.until(lambda: len(console.heartbeats) > before, 1)


async def test_an_unknown_message_is_ignored_and_the_next_one_heard(tmp_path, console):
    desk = Desk(tmp_path, console)
    async with running(desk):
        await console.say('{"type": "from_the_future", "x": 1}')
        await console.say("no JSON at all")
        await console.offer("a", {"x": 1})
        await asyncio.wait_for(_until(lambda: desk.ears.heard), 5)
        assert len(console.hellos) == 1


async def test_a_stale_epoch_is_told_to_the_host_by_the_record_that_was_refused(tmp_path, console):
    console.epochs["a"] = 2
    desk = Desk(tmp_path, console)
    desk.say(0)
    async with running(desk):
        await asyncio.wait_for(_until(lambda: desk.ears.stale), 5)
        assert desk.ears.stale == [("a", 1)]
        assert await desk.link.drained(5)


async def test_a_console_that_has_forgotten_gets_a_new_instance(tmp_path, console):
    desk = Desk(tmp_path, console)
    async with running(desk):
        desk.say(0)
        assert await desk.link.drained(5)
        first = console.hellos[0].instance
        console.applied.clear()
        console.items.clear()
        console.cut()
        await console.until(lambda: len({hello.instance for hello in console.hellos}) == 2)
        desk.say(1)
        await console.until(lambda: console.items)
        assert numbers(console) == [1]
        assert desk.spool.instance != first


async def test_a_wrong_token_is_said_plainly_and_tried_again(tmp_path, console, caplog):
    desk = Desk(tmp_path, console, token="dy_wrong")
    async with running(desk):
        await asyncio.wait_for(_until(lambda: "is the token right?" in caplog.text), 5)
        assert console.hellos == []


async def test_extend_and_stop_reach_the_host(tmp_path, console):
    desk = Desk(tmp_path, console)
    soon = datetime.now(UTC) + timedelta(minutes=1)
    async with running(desk):
        await console.say(messages.Extend(assignment="a", epoch=1, paid_until=soon))
        await console.say(messages.Stop(assignment="a", epoch=1, reason="cancelled_by_user"))
        await asyncio.wait_for(_until(lambda: len(desk.ears.heard) == 2), 5)


async def _until(holds) -> None:
    while not holds():
        await asyncio.sleep(0.01)  # between two looks
