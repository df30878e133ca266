"""An engine that the whole machine shares, and one rig a module on it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from desktops.images import build
from desktops.worker.engine.choose import open_engine
from desktops.worker.engine.provision import client, ensure_engine
from desktops.worker.engine.runc import leftovers

from .rig import Rig
from .scenario import Scenario

PATIENCE_SECONDS = 1700  # a test may be the first to ask, and its scenario the last to be played
PREFIX = "deskyard-rig-"
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
        yield address
    finally:
        stop()


@pytest.fixture(scope="session")
def digest(engine_address: str, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """That of a template's desktop, built where it is missing."""

    def find(name: str) -> str:
        with closing(open_engine(engine_address, tmp_path_factory.mktemp("engine"))) as engine:
            known = {image.digest for image in engine.images() if image.name == name}
        wanted = f"sha256:{build.recipe_digest(name)}"
        if wanted in known:
            return wanted
        with closing(client(engine_address)) as builder:
            return build.build(builder, name, print)

    return find


def clear_left_rigs(folder: Path) -> None:
    """Mounts and files of those whose tests were killed: the process that a rig is of is in its name."""
    for left in folder.glob(f"{PREFIX}*-*"):
        process = left.name.removeprefix(PREFIX).partition("-")[0]
        if not Path("/proc", process).exists():
            leftovers.unmount_below(left)
            leftovers.remove(left)


@contextmanager
def a_rig(engine: str, digests: Mapping[str, str], labs: int, *, durable: bool) -> Iterator[Rig]:
    # Not pytest's own folder: that closes itself to PostgreSQL's user whenever another pytest begins.
    clear_left_rigs(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as folder:
        made = Rig(Path(folder), engine, digests, labs=labs, durable=durable)
        try:
            made.start()
            yield made
        finally:
            made.close()
            leftovers.unmount_below(made.folder)  # what a worker left that was killed and not started again


@pytest.fixture(scope="module")
def rig(engine_address: str, digest: Callable[[str], str]) -> Iterator[Rig]:
    """For one module, whose tests do to its services what they like."""
    with a_rig(engine_address, {"basic": digest("basic")}, labs=3, durable=True) as made:
        yield made


Playing = dict[str, Future[Any]]


@pytest.fixture(scope="session")
def playing(
    engine_address: str, digest: Callable[[str], str], request: pytest.FixtureRequest
) -> Iterator[Playing]:
    """The SCENARIOS of all modules that the chosen tests look at, played on one rig side by side, each in a lab of
    its own; those that take longest first. All are waited for before the rig ends."""
    asked: dict[str, Scenario] = {}
    for item in request.session.items:
        known = getattr(getattr(item, "module", None), "SCENARIOS", {})
        asked |= {
            name: known[name] for name in known if f"test_{name}" in (item.name, item.name.split("__")[0])
        }
    digests = {name: digest(name) for name in sorted({"basic", *(each.template for each in asked.values())})}
    with (
        a_rig(engine_address, digests, labs=len(asked), durable=False) as rig,
        ThreadPoolExecutor(AT_ONCE, thread_name_prefix="scenario") as pool,
    ):
        order = sorted(asked, key=lambda name: -asked[name].seconds)
        yield {name: pool.submit(_play, asked[name], rig) for name in order}


def _play(scenario: Scenario, rig: Rig) -> Any:
    try:
        return scenario.play(rig)
    except BaseException as failure:
        failure.add_note(rig.last_words())
        raise


@pytest.fixture
def played(playing: Playing, request: pytest.FixtureRequest) -> Any:
    """What came of the scenario of the test's own name: `test_NAME`, or `test_NAME__and_more`."""
    return playing[request.node.name.removeprefix("test_").split("__")[0]].result(PATIENCE_SECONDS)
