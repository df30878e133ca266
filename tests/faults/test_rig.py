"""The rig itself: what one leaves whose tests were killed is no trouble to the next, and what the invariants say of a
desktop that should not be there."""

from __future__ import annotations

import os
import subprocess
import uuid
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from desktops.images.build import recipe_digest
from desktops.worker.engine.base import DeskSpec

from .conftest import PREFIX, clear_left_rigs
from .invariants import money_adds_up, nothing_is_left
from .processes import until
from .rig import Rig
from .scenario import Played, Scenario


def strays(rig: Rig) -> Played:
    """Once all is over and adds up, somebody starts desktops for its worker: one of each kind that it can make. The
    one without a network is made as this machine's workers make theirs, the other always as a container."""
    lab = rig.lab()
    worker = lab.worker(slots=1)
    played = Played(lab, lab.run("solved"))
    image, until_then = f"sha256:{recipe_digest('basic')}", datetime.now(UTC) + timedelta(minutes=2)
    wanted = [DeskSpec(str(uuid.uuid4()), image, egress=egress, paid_until=until_then) for egress in EGRESS]
    with worker.engine() as engine, ExitStack() as stack:
        for spec in wanted:
            stack.callback(engine.remove, engine.create(spec))
        until(lambda: len(rig.left(lab.owners)) == len(wanted), 60, "the sight of both")
        played.seen = {"wanted": {spec.computer for spec in wanted}, "said": []}
        for look in (money_adds_up, nothing_is_left):
            with pytest.raises(AssertionError) as told:
                look(lab)
            played.seen["said"].append(str(told.value))
    nothing_is_left(lab)
    return played


EGRESS = ("none", "open")
SCENARIOS = {"strays": Scenario(25, strays)}


@pytest.mark.desktop
@pytest.mark.timeout(1800)
def test_strays(played: Played) -> None:
    unpaid, left = played.seen["said"]
    assert "desktops nobody pays for" in unpaid
    assert all(computer in unpaid for computer in played.seen["wanted"])
    assert "desktops are left" in left
    assert any(
        computer in left for computer in played.seen["wanted"]
    )  # containers are called by another name


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts anything")
def test_mounts_and_files_of_killed_rigs_go_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    killed, live = tmp_path / f"{PREFIX}{ended.pid}-abc", tmp_path / f"{PREFIX}{os.getpid()}-abc"
    mounted = killed / "worker/root"
    mounted.mkdir(parents=True)
    live.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(mounted)], check=True)
    clear_left_rigs(tmp_path)
    assert list(tmp_path.iterdir()) == [live]
    assert str(killed) not in Path("/proc/mounts").read_text()
