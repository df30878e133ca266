"""What the process engine keeps to, where no container runs (a whole desktop: see the tests of the guest)."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from desktops.worker.engine.process import _processes_of, _started


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_a_process_is_known_by_its_start_and_not_by_its_number_alone(
    sleeper: subprocess.Popen[bytes],
) -> None:
    assert _started(sleeper.pid) > 0
    assert _started(sleeper.pid) == _started(sleeper.pid)
    sleeper.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert _started(sleeper.pid) == 0  # a zombie does not count as running


def test_the_processes_of_a_user_are_found_without_zombies(sleeper: subprocess.Popen[bytes]) -> None:
    assert sleeper.pid in _processes_of(os.getuid())
    sleeper.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert sleeper.pid not in _processes_of(os.getuid())
