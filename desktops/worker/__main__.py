"""`python -m desktops.worker`, also the console script `deskyard-worker`."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from desktops.protocol.attempt import AttemptOrder, PrefixOrder
from desktops.protocol.hold import HoldOrder

from .attempt import AttemptRun
from .blobs import BlobStore, Uploader
from .config import Config, ConfigError, load
from .engine.base import Engine, EngineError
from .engine.choose import open_engine
from .holding import HoldRun
from .host import Build, Host
from .link import Link
from .live import LiveViews
from .log import start as start_log
from .prefix import PrefixRun
from .ready import Ready
from .recorder import Recorder
from .session import Session
from .spool import Spool, SpoolBusy
from .states import States

log = logging.getLogger("desktops.worker")

DRAIN_SECONDS = (
    5.0  # what a shut-down waits for the console's acknowledgement; the rest is sent at the next start
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 after a clean shut-down, 2 when the settings or this machine do not allow a worker."""
    try:
        config = load(sys.argv[1:] if arguments is None else arguments)
    except ConfigError as error:
        print(f"deskyard-worker: {error}", file=sys.stderr)
        return 2
    start_log(config.log_level, config.token)
    try:
        asyncio.run(serve(config))
    except (EngineError, SpoolBusy) as error:
        print(f"deskyard-worker: {error}", file=sys.stderr)
        return 2
    return 0


async def serve(config: Config, *, engine: Engine | None = None, stop: asyncio.Event | None = None) -> None:
    """Work until `stop` is set, or SIGTERM or SIGINT comes. Raises EngineError, SpoolBusy at the start."""
    config.home.mkdir(parents=True, exist_ok=True)
    spool = Spool(config.home / "spool")
    stop = stop or asyncio.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sign, stop.set)
    try:
        if engine is None:
            engine = await asyncio.to_thread(
                open_engine, config.engine, config.home, config.slots, disk_mb=config.disk_mb
            )
        try:
            await _serve(config, engine, spool, stop)
        finally:
            await asyncio.to_thread(engine.close)
    finally:
        for sign in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(sign)
        spool.close()


async def _serve(config: Config, engine: Engine, spool: Spool, stop: asyncio.Event) -> None:
    facts = await asyncio.to_thread(engine.probe)
    blobs = BlobStore(config.home / "blobs")
    states = States(engine, config.home / "states", config.states_mb)
    ready = Ready(engine, states, config.home, most=config.ready if config.warm else 0)
    surroundings = {
        "engine": engine,
        "engine_name": facts.name,
        "states": states,
        "ready": ready,
        "scratch": config.scratch,
    }
    host = Host(
        config=config,
        engine=engine,
        facts=facts,
        spool=spool,
        blobs=blobs,
        states=states,
        ready=ready,
        kinds={
            "attempt": _build(AttemptRun, AttemptOrder, surroundings),
            "rollout": _build(AttemptRun, AttemptOrder, surroundings),
            "prefix": _build(PrefixRun, PrefixOrder, surroundings),
            "computer": _build(HoldRun, HoldOrder, surroundings),
        },
    )
    await asyncio.to_thread(host.start)
    log.info("%s desktops, %d at once; %s", facts.name, host.slots, facts.isolation)
    uploader = Uploader(blobs, url=config.url, token=config.token)
    link = Link(
        url=config.websocket_url,
        token=config.token,
        spool=spool,
        blobs=blobs,
        uploader=uploader,
        listener=host,
    )
    host.on_change = link.beat
    views = LiveViews(url=config.websocket_url, token=config.token, host=host)
    host.on_view = views.open
    talking = asyncio.create_task(link.run())
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([talking, stopping], return_when=asyncio.FIRST_COMPLETED)
        log.info("shutting down: ending what is running")
        await asyncio.to_thread(host.close)
        if link.connected and not await link.drained(DRAIN_SECONDS):
            log.warning("the console has not acknowledged everything; the rest is sent at the next start")
    finally:
        stopping.cancel()
        talking.cancel()
        results = await asyncio.gather(talking, stopping, return_exceptions=True)
        await views.close()
        uploader.close()
    if isinstance(results[0], Exception):
        raise results[0]


def _build(run: type[Session], order: type[BaseModel], surroundings: dict[str, Any]) -> Build:
    def build(
        payload: dict[str, Any], recorder: Recorder, paid_until: datetime, closing: threading.Event
    ) -> Session:
        return run(
            order.model_validate(payload),  # type: ignore[arg-type]
            recorder=recorder,
            paid_until=paid_until,
            closing=closing,
            **surroundings,
        )

    return build


if __name__ == "__main__":
    raise SystemExit(main())
