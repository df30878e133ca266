"""An engine that the whole machine shares, and one rig a module on it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from desktops.images import build
from desktops.worker.engine.choose import open_engine, socket_of
from desktops.worker.engine.provision import client, ensure_engine

from .rig import Rig

LABS = 24
AT_ONCE = 5  # scenarios: mostly they wait, and two processors bear so many desktops


@pytest.fixture(scope="session")
def engine_address() -> Iterator[str]:
    given = os.environ.get("DESKYARD_ENGINE", "")
    if given and given != "auto":
        address, stop = given, lambda: None
    else:
        home = Path(os.environ.get("DESKYARD_HOME", "") or ".deskyard").absolute()
        found = ensure_engine(home, print)
        address, stop = found.address, found.stop
    try:
        if address == "process":
            pytest.skip("these faults are those of containers, and none can run here")
        yield socket_of(address)
    finally:
        stop()


@pytest.fixture(scope="session")
def digest(engine_address: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """That of the basic desktop, built where it is missing."""
    with closing(open_engine(engine_address, tmp_path_factory.mktemp("engine"))) as engine:
        known = {image.digest for image in engine.images() if image.name == "basic"}
    wanted = f"sha256:{build.recipe_digest('basic')}"
    if wanted in known:
        return wanted
    with closing(client(engine_address)) as builder:
        return build.build(builder, "basic", print)


@pytest.fixture(scope="module")
def rig(engine_address: str, digest: str) -> Iterator[Rig]:
    # Not pytest's own folder: that closes itself to PostgreSQL's user whenever another pytest begins.
    with tempfile.TemporaryDirectory(prefix="deskyard-rig-") as folder:
        made = Rig(Path(folder), engine_address, digest, labs=LABS)
        try:
            made.start()
            yield made
        finally:
            made.close()


Begin = Callable[[Callable[[Rig], Any]], Future[Any]]


@pytest.fixture(scope="module")
def begin(rig: Rig) -> Iterator[Begin]:
    """Play a scenario in a thread of its own, beside others. All are waited for before the rig ends."""
    with ThreadPoolExecutor(max_workers=AT_ONCE, thread_name_prefix="scenario") as pool:
        yield lambda scenario: pool.submit(scenario, rig)
