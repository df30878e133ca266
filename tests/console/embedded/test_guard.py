"""The process that stays when `make up` is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from console.embedded.guard import Guard
from console.embedded.home import PROJECT, Home
from console.embedded.processes import is_running, wait_for_end

PARENT = """
import sys
from pathlib import Path
from console.embedded.guard import Guard
from console.embedded.home import Home

home = Home(Path(sys.argv[1]))
home.create()
guard = Guard(home)
guard.watch(int(sys.argv[2]))
print(guard.pid, flush=True)
sys.stdin.read()
"""


def test_it_ends_at_once_when_its_parent_ends_in_order(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.create()
    guard = Guard(home)
    guard.watch(1)
    guard.release()
    assert not is_running(guard.pid)


def test_when_its_parent_is_killed_it_waits_for_the_children_and_ends(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        command = [sys.executable, "-c", PARENT, str(tmp_path), str(child.pid)]
        with subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as parent:
            assert parent.stdout is not None
            guard = int(parent.stdout.readline())
            parent.kill()
        assert not wait_for_end(guard, seconds=0.5)
        child.kill()
    assert wait_for_end(guard, seconds=60)
    assert (tmp_path / "logs" / "guard.log").read_text() == ""
