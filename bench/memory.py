"""What a desktop and a worker hold while nothing happens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from desktops.worker.computer import Computer
from desktops.worker.testing import TOKEN, ConsoleDouble

from .site import Site
from .table import Figure, Peer, Row, Samples

DESKTOP_LIMIT_MIB = 90.0
WORKER_LIMIT_MIB = 100.0
WORKER_SECONDS = 30.0
STOP_SECONDS = 20.0

# Kilobytes of every process of the desktop but the one that looks: pages of its own, and its share of all.
PROPORTIONAL = """
import glob, json, os
own = share = 0
for path in glob.glob("/proc/[0-9]*/smaps_rollup"):
    if path.split("/")[2] == str(os.getpid()) or os.stat(path).st_uid != os.getuid():
        continue
    try:
        with open(path) as file:
            kib = {line.split(":")[0]: int(line.split()[1]) for line in file.readlines()[1:]}
    except (FileNotFoundError, ProcessLookupError):
        continue
    own += kib["Pss_Anon"] + kib["Pss_Shmem"]
    share += kib["Pss"]
print(json.dumps([own, share]))
"""


def measure(site: Site) -> list[Row]:
    own, share = _desktop(site)
    return [
        Figure(
            "idle basic desktop", "MiB", own, Peer("limit", Samples((DESKTOP_LIMIT_MIB,))), DESKTOP_LIMIT_MIB
        ),
        Figure("and its share of the image's files", "MiB", share, part=True),
        Figure(
            "idle worker, resident",
            "MiB",
            Samples((asyncio.run(_worker(site)),)),
            Peer("limit", Samples((WORKER_LIMIT_MIB,))),
            WORKER_LIMIT_MIB,
        ),
    ]


def _desktop(site: Site) -> tuple[Samples, Samples]:
    with Computer(site.engine, site.spec()) as computer:
        computer.guest.settle(quiet_ms=500, timeout_ms=5000)
        done = computer.guest.run(["python3", "-c", PROPORTIONAL])
    if done.returncode:
        raise OSError(f"memory could not be read in the desktop: {done.stderr.strip()[-300:]}")
    own, share = json.loads(done.stdout)
    return Samples((own / 1024,)), Samples((share / 1024,))


async def _worker(site: Site) -> float:
    """MiB of a real worker on the real engine that has said hello to a console in memory, and has no work."""
    async with ConsoleDouble() as console, _running(site, console.url) as process:
        await console.until(lambda: console.hellos and console.heartbeats, WORKER_SECONDS)
        status = Path(f"/proc/{process.pid}/status").read_text()
        found = re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)
        if found is None:
            raise OSError("the worker ended at once")
        return int(found[1]) / 1024


@contextlib.asynccontextmanager
async def _running(site: Site, url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "desktops.worker",
        "--engine",
        site.address,
        env={
            **os.environ,
            "DESKYARD_URL": url,
            "DESKYARD_WORKER_TOKEN": TOKEN,
            "DESKYARD_WORKER_TOKEN_FILE": "",
            "DESKYARD_WORKER_HOME": str(site.folder / "worker"),
            "DESKYARD_LOG_LEVEL": "WARNING",
        },
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
