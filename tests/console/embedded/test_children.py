"""Children of `make up`, with small shell commands in their place."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from console.embedded import children as children_module
from console.embedded.children import Child, Children, rotate
from console.embedded.home import PROJECT
from console.embedded.processes import is_running, wait_for_end
from console.embedded.terminal import StepFailed

Make = Callable[..., Child]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def group(said: list[str]) -> Iterator[Children]:
    group = Children(said.append)
    yield group
    group.stop()


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def child(script: str, *, name: str = "console", **options: object) -> Child:
        log = tmp_path / f"{name}.log"
        return Child(name, ["sh", "-c", script], dict(os.environ), log, tmp_path, **options)  # type: ignore[arg-type]

    return child


def wait_until(true: Callable[[], bool], group: Children, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        group.watch(0.02)


def pid_in(path: Path) -> int:
    return int(path.read_text() or 0) if path.exists() else 0


def test_one_that_dies_is_started_again_with_a_sentence(
    group: Children, make: Make, said: list[str], tmp_path: Path
) -> None:
    child = make("echo begun >> began; exec sleep 60")
    group.start(child)
    wait_until(lambda: (tmp_path / "began").exists(), group)
    assert child.process is not None
    child.process.kill()
    wait_until(lambda: (tmp_path / "began").read_text().count("begun") == 2, group)
    assert said == [f"The console was ended by SIGKILL; starting it again. Its log: {child.log}"]
    assert group.alive("console")


def test_one_that_keeps_dying_is_given_up_with_its_last_words(
    group: Children, make: Make, said: list[str]
) -> None:
    group.start(make("echo no such table; exit 3"))
    with pytest.raises(StepFailed) as failure:
        group.watch(60)
    assert "code 3, for the 5th time" in failure.value.why
    assert "no such table" in failure.value.why
    assert "console.log" in failure.value.what_to_do
    assert len(said) == 4


def test_work_that_ends_by_itself_tells_its_exit_code_once(group: Children, make: Make) -> None:
    codes: list[int] = []
    group.start(make("exit 7", restart=False, on_end=codes.append))
    wait_until(lambda: bool(codes), group)
    group.watch(0.05)
    assert codes == [7]
    assert not group.alive("console")


def test_the_last_started_is_ended_first(group: Children, make: Make, tmp_path: Path) -> None:
    for name in ("first", "second"):
        script = f"trap 'echo {name} >> ended; exit' TERM; touch {name}; while :; do sleep 0.05; done"
        group.start(make(script, name=name))
    wait_until(lambda: (tmp_path / "first").exists() and (tmp_path / "second").exists(), group)
    group.stop()
    assert (tmp_path / "ended").read_text().split() == ["second", "first"]


def test_one_that_ignores_the_request_is_killed_with_what_it_started(
    group: Children, make: Make, tmp_path: Path
) -> None:
    child = make("trap '' TERM; sleep 300 & echo $! > inner; wait; wait", end_seconds=0.2)
    group.start(child)
    wait_until(lambda: pid_in(tmp_path / "inner") > 0, group)
    group.stop()
    assert wait_for_end(pid_in(tmp_path / "inner"), seconds=60)


def test_children_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    script = (
        "import os; from pathlib import Path; from console.embedded.children import Child, Children\n"
        "group = Children(print)\n"
        f"here = Path({str(tmp_path)!r})\n"
        "child = Child('x', ['sleep', '300'], dict(os.environ), here / 'x.log', here)\n"
        "group.start(child); print(child.process.pid, flush=True); group.watch(300)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.send_signal(signal.SIGKILL)
    assert wait_for_end(pid, seconds=60)


def test_a_long_log_is_cut_while_its_writer_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(children_module, "LOG_BYTES", 100)
    log = tmp_path / "a.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 200)
        rotate(log)
        writer.write(b"after")
    assert log.read_bytes() == b"after"
    assert (tmp_path / "a.log.1").read_bytes() == b"x" * 200
