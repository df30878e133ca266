"""Desktops come to life, end, and leave nothing behind."""

from __future__ import annotations

import io
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from docker.errors import APIError
from requests import Response

from desktops.worker.computer import Computer, StartFailed
from desktops.worker.engine.base import (
    RECIPE_LABEL,
    TEMPLATE_LABEL,
    DeskSpec,
    Engine,
    EngineError,
    Image,
    ImageMissing,
)
from desktops.worker.engine.choose import socket_of
from desktops.worker.engine.docker import DockerEngine
from desktops.worker.engine.runc.engine import RuncEngine
from desktops.worker.guest_client import GuestUnreachable
from tests.desktops.conftest import StartComputer

pytestmark = pytest.mark.desktop

Images = Callable[[str], str]


@pytest.fixture
def containers(engine_address: str) -> Iterator[DockerEngine]:
    """A container engine with an owner of this test's own."""
    if engine_address == "process":
        pytest.skip("no container can run on this machine")
    made = DockerEngine(socket_of(engine_address), uuid.uuid4().hex)
    yield made
    made.sweep([])
    made.close()


@pytest.fixture(params=["the machine's best", "containers"])
def engine(request: pytest.FixtureRequest, engine: Engine) -> Engine:
    """The engine the tests run on, and the containers under it: both must hold the same promises."""
    if request.param == "containers" and isinstance(engine, RuncEngine):
        return request.getfixturevalue("containers")
    return engine


def spec(image: str, **more: object) -> DeskSpec:
    return DeskSpec(computer=str(uuid.uuid4()), image=image, **more)  # type: ignore[arg-type]


def until(condition: Callable[[], bool], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_a_computer_becomes_ready_and_is_gone_after_stop(engine: Engine, image: Images) -> None:
    with Computer(engine, spec(image("basic"))) as computer:
        assert computer.started_at
        assert computer.ready_seconds > 0
        assert computer.guest.ready()
        assert [owned.state for owned in engine.list_owned() if owned.computer == computer.id] == ["running"]
        assert computer.lost() is None
        found = engine.find(computer.id)
        assert found
        assert found.ref == computer.ref
    assert computer.stopped_at
    assert computer.stopped_at >= computer.started_at
    assert engine.find(computer.id) is None
    assert computer.stop() == computer.stopped_at  # once is enough, twice is no error


def test_a_desktop_that_goes_away_is_lost(engine: Engine, image: Images) -> None:
    with Computer(engine, spec(image("basic"))) as computer:
        desk = engine.find(computer.id)
        assert desk
        engine.remove(desk)
        with pytest.raises(GuestUnreachable):
            computer.guest.screenshot()
        assert computer.lost() == "desktop_lost"


def test_a_dead_agent_is_guest_unreachable(engine: Engine, image: Images) -> None:
    with Computer(engine, spec(image("basic"))) as computer:
        with pytest.raises(GuestUnreachable):
            computer.guest.run("pkill -KILL -f 'm guest.serve[r]'")
        assert computer.lost(patience=0.5) == "guest_unreachable"


def test_silence_ends_the_desktop(start_computer: StartComputer, engine: Engine) -> None:
    computer = start_computer()
    computer._stopping.set()  # its worker speaks no more
    computer.guest.set_silence_limit(1.0)
    desk = engine.find(computer.id)
    assert desk
    assert until(lambda: desk.state() != "running")
    assert computer.lost() == "desktop_lost"


def test_a_desktop_ends_when_nothing_pays_for_it_though_somebody_speaks(
    start_computer: StartComputer, engine: Engine
) -> None:
    computer = start_computer(paid_until=datetime.now(UTC) + timedelta(minutes=5))
    computer.set_paid_until(datetime.now(UTC) + timedelta(seconds=1))
    desk = engine.find(computer.id)
    assert desk

    def ended() -> bool:
        try:
            computer.guest.keepalive()
        except GuestUnreachable:
            return desk.state() != "running"
        return False

    assert until(ended)


def test_an_unknown_image_is_said_to_be_missing_and_leaves_nothing(engine: Engine) -> None:
    wanted = spec("sha256:" + "12" * 32)
    with pytest.raises(ImageMissing, match="build"):
        engine.create(wanted)
    with pytest.raises(StartFailed):
        Computer(engine, wanted).start()
    assert engine.find(wanted.computer) is None


def test_a_sweep_removes_what_was_created_and_never_started(containers: DockerEngine, image: Images) -> None:
    orphan, kept = spec(image("basic")), spec(image("basic"))
    containers.client.api.create_container_from_config(
        containers._config(orphan), f"deskyard-{orphan.computer}"
    )
    running = containers.create(kept)
    assert {owned.state for owned in containers.list_owned()} == {"created", "running"}
    report = containers.sweep([kept.computer])
    assert (report.removed, report.left, report.problems) == ([orphan.computer], [], [])
    assert [owned.computer for owned in containers.list_owned()] == [kept.computer]
    assert containers.sweep([]).removed == [kept.computer]
    assert running.state() == "gone"


def test_a_sweep_leaves_another_owners_desktops_alone(
    containers: DockerEngine, engine_address: str, image: Images
) -> None:
    desk = containers.create(spec(image("basic")))
    other = DockerEngine(socket_of(engine_address), uuid.uuid4().hex)
    try:
        assert other.list_owned() == []
        assert other.sweep([]).removed == []
    finally:
        other.close()
    assert desk.state() == "running"


def test_a_desktop_has_no_capability_no_network_and_nothing_of_the_host(
    containers: DockerEngine, image: Images
) -> None:
    with Computer(containers, spec(image("basic"))) as computer:
        status = computer.guest.run("cat /proc/self/status").stdout
        assert "CapBnd:\t0000000000000000" in status
        assert "NoNewPrivs:\t1" in status
        links = computer.guest.run("ls /sys/class/net").stdout.split()
        assert links == ["lo"]
        inspected = containers.client.api.inspect_container(computer.ref)
        assert inspected["Mounts"] == []
        assert inspected["HostConfig"]["PidsLimit"] > 0
        assert inspected["HostConfig"]["Memory"] > 0


def test_a_link_laid_in_place_of_the_agents_socket_is_not_followed(
    containers: DockerEngine, image: Images
) -> None:
    with Computer(containers, spec(image("basic"))) as computer:
        computer.guest.run(
            "mv /run/deskyard/agent.sock /tmp/real.sock; ln -s /tmp/real.sock /run/deskyard/agent.sock"
        )
        computer.guest.disconnect()
        with pytest.raises(GuestUnreachable):
            computer.guest.screenshot()


def test_two_desktops_at_once_do_not_see_each_other(containers: DockerEngine, image: Images) -> None:
    with Computer(containers, spec(image("basic"))) as one, Computer(containers, spec(image("basic"))) as two:
        one.guest.write_file("~/mine", b"1")
        assert not two.guest.exists("~/mine")
        assert "mine" not in two.guest.run("ls -a ~ /tmp").stdout


def test_images_are_listed_though_the_engine_stumbles_over_one_that_is_being_removed(
    containers: DockerEngine, image: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest, listed = image("basic"), containers.client.api.images
    stumbles, broken = [1, 2], Response()
    broken.status_code = 500

    def stumbling(**options: Any) -> Any:
        if stumbles:
            stumbles.pop()
            raise APIError("image not known", broken)
        return listed(**options)

    monkeypatch.setattr(containers.client.api, "images", stumbling)
    assert digest in {one.digest for one in containers.images()}
    stumbles.extend(range(100))
    with pytest.raises(EngineError, match="does not list its images"):
        containers.images()


def test_an_image_whose_tag_has_moved_on_is_still_found_by_its_digest(
    containers: DockerEngine, image: Images
) -> None:
    made_of, digest = containers.image_id(image("basic")), uuid.uuid4().hex * 2
    stream = containers.client.api.build(
        fileobj=io.BytesIO(f"FROM {made_of}\n".encode()),
        labels={RECIPE_LABEL: digest, TEMPLATE_LABEL: "basic:1"},
        rm=True,
        forcerm=True,
        decode=True,
    )
    assert not [event for event in stream if "error" in event]
    try:
        assert Image("basic", 1, f"sha256:{digest}") in containers.images()
        with Computer(containers, spec(f"sha256:{digest}")) as computer:
            assert computer.guest.ready()
    finally:
        containers.client.images.remove(containers.image_id(digest))
