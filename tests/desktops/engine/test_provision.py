"""Which engine is found or brought, and that nothing of it is left."""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from desktops.worker.engine import provision
from desktops.worker.engine.base import EngineError
from desktops.worker.engine.choose import open_engine, owner_of, parse_runc, runc_address, socket_of

pytestmark = pytest.mark.desktop


def test_a_socket_nobody_answers_is_passed_over_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if provision._cannot_contain() or os.geteuid() != 0:
        pytest.skip("no container can run on this machine")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    found = provision.ensure_engine(tmp_path, lambda line: None)
    try:
        assert socket_of(found.address) == f"unix://{tmp_path}/engine/podman.sock"
        assert "nobody.sock" in found.passed_over[0]
        assert provision.check(socket_of(found.address)).startswith("podman ")
    finally:
        found.stop()
    assert not Path(f"{tmp_path}/engine/podman.sock").exists()
    assert str(tmp_path) not in Path("/proc/mounts").read_text()


def test_the_engine_in_use_starts_containers_that_can_be_looked_into(engine_address: str) -> None:
    if engine_address == "process":
        pytest.skip("no container can run on this machine")
    assert provision.check(socket_of(engine_address))


def test_a_workers_owner_mark_stays_over_restarts(tmp_path: Path) -> None:
    assert owner_of(tmp_path) == owner_of(tmp_path)
    assert owner_of(tmp_path) != owner_of(tmp_path / "other")


def test_an_engine_that_does_not_answer_is_an_error_that_says_where(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"nobody\.sock"):
        open_engine(f"unix://{tmp_path}/nobody.sock", tmp_path)


def test_a_runc_address_keeps_its_two_parts(tmp_path: Path) -> None:
    criu = tmp_path / "with space" / "criu"
    address = runc_address("unix:///run/docker.sock", criu)
    assert parse_runc(address) == ("unix:///run/docker.sock", criu)
    assert socket_of(address) == "unix:///run/docker.sock"
    with pytest.raises(EngineError, match="criu"):
        open_engine("runc+unix:///run/docker.sock", tmp_path)


def test_where_desktops_cannot_be_saved_the_engine_says_why(
    engine_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if engine_address == "process":
        pytest.skip("no container can run on this machine")
    monkeypatch.setenv("DOCKER_HOST", socket_of(engine_address))
    which = shutil.which
    monkeypatch.setattr("shutil.which", lambda name: None if name == "runc" else which(name))
    found = provision.ensure_engine(tmp_path, lambda line: None)
    assert socket_of(found.address) == socket_of(engine_address)
    with closing(open_engine(found.address, tmp_path)) as engine:
        facts = engine.probe()
    assert (facts.can_fork, facts.cannot_fork_because) == (
        False,
        "Live desktops cannot be saved here: runc is not installed",
    )


def test_an_engine_that_nobody_tried_to_save_with_says_so(engine_address: str, tmp_path: Path) -> None:
    if engine_address == "process":
        pytest.skip("no container can run on this machine")
    with closing(open_engine(socket_of(engine_address), tmp_path)) as engine:
        assert "was not tried" in engine.probe().cannot_fork_because
