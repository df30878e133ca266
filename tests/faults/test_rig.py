"""The rig itself: what one leaves whose tests were killed is no trouble to the next."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from .conftest import PREFIX, clear_left_rigs


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
