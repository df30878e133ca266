"""`make up` as a whole, on a real desktop, in a data folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.embedded.api import Api, answers
from console.embedded.home import PROJECT, Home, is_owned
from console.embedded.up import took
from desktops.worker.engine.choose import socket_of

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(900)]

PREPARING = 300  # s, as if `make up` had installed for so long
ENGINE = os.environ.get("DESKYARD_ENGINE") or os.environ.get("DOCKER_HOST") or ""


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture
def environment(passable: Path, port: int) -> dict[str, str]:
    if not ENGINE:
        pytest.skip("needs an engine that has the images: make test, or set DOCKER_HOST")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("DESKYARD_", "DJANGO_"))}
    kept.pop("DATABASE_URL", None)
    engine = {} if ENGINE == "process" else {"DOCKER_HOST": socket_of(ENGINE)}
    return kept | engine | {"DESKYARD_HOME": str(passable), "DESKYARD_PORT": str(port)}


@contextlib.contextmanager
def made_up(environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "console.embedded", "up", "--began", str(time.time() - PREPARING)]
    with subprocess.Popen(
        command,
        cwd=PROJECT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)


def read_until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if words in line:
            return "".join(said)
    raise AssertionError("".join(said))


def processes_of(folder: Path) -> list[str]:
    """Command lines and environments that name the folder."""
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(one.name) == os.getpid():
                continue
            text = (one / "cmdline").read_bytes() + (one / "environ").read_bytes()
            if str(folder).encode() in text:
                found.append((one / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def test_it_comes_up_plays_a_test_and_leaves_nothing_running(
    environment: dict[str, str], passable: Path, port: int
) -> None:
    with made_up(environment) as process:
        told = read_until(process, "Deskyard is up: ")
        after = re.search(r"after (\d+) min \d+ s", told)
        assert after
        assert int(after[1]) >= PREPARING // 60
        told = read_until(process, "First test: success")
        assert "cost $" in told

        demo = json.loads((passable / "demo.json").read_text())
        assert demo["url"] == f"http://127.0.0.1:{port}"
        runs = Api(demo["url"], demo["token"]).pages("/v1/runs")
        assert [(run["status"], run["counts"]["success"]) for run in runs] == [("completed", 1)]

        second = subprocess.run(
            [sys.executable, "-m", "console.embedded", "up"],
            cwd=PROJECT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert second.returncode == 1
        assert f"already up: {demo['url']}" in second.stdout

        process.send_signal(signal.SIGTERM)
        read_until(process, "Everything has ended.")
    assert process.returncode == 0
    assert not answers(demo["url"])
    assert not is_owned(Home(passable).root / "up.lock")
    assert processes_of(passable) == []


def test_a_port_in_use_is_refused_with_the_way_out(environment: dict[str, str], port: int) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with made_up(environment) as process:
            said = read_until(process, "What to do")
            process.wait(20)
    assert "Taking the port failed." in said
    assert f"DESKYARD_PORT={port + 1} make up" in said
    assert process.returncode == 1


def test_make_counts_from_before_it_installs_anything() -> None:
    before = int(time.time())
    said = subprocess.run(
        ["make", "-n", "up"], cwd=PROJECT, capture_output=True, text=True, check=True
    ).stdout
    began = re.search(r"embedded up --end-with-parent --began (\d+)$", said, re.MULTILINE)
    assert began
    assert before <= int(began[1]) <= time.time()


@pytest.mark.parametrize(("seconds", "words"), [(4.4, "4 s"), (59.6, "1 min 0 s"), (325, "5 min 25 s")])
def test_how_long_it_took_is_said_in_minutes_and_seconds(seconds: float, words: str) -> None:
    assert took(seconds) == words
