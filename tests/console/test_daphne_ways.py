"""What Daphne refuses by itself it refuses in words. A real one, with an application that only repeats."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from console.embedded.home import PROJECT


@dataclass(frozen=True)
class Echo:
    port: int
    log: Path


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[Echo]:
    """The port is the kernel's to choose: Daphne says in its log which it is."""
    command = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", "0", "tests.console.echo:application"]
    log = tmp_path / "log"
    with log.open("wb") as file, subprocess.Popen(command, cwd=PROJECT, stdout=file, stderr=file) as process:
        try:
            while " 127.0.0.1:" not in (said := log.read_text()):
                assert process.poll() is None, said
            yield Echo(int(said.rpartition(" 127.0.0.1:")[2].split()[0]), log)
        finally:
            process.terminate()


def test_a_frame_that_is_too_large_is_closed_with_its_code_and_logged(echo: Echo) -> None:
    with connect(f"ws://127.0.0.1:{echo.port}/", max_size=None) as socket:
        socket.send("small")
        socket.send("x" * (2 << 20))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=30)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009
    assert "sent a frame of 2,097,152 bytes; at most 1,048,576 are taken" in echo.log.read_text()


def test_a_form_that_cannot_be_read_reaches_the_application(echo: Echo) -> None:
    address, kind = f"http://127.0.0.1:{echo.port}/", {"Content-Type": "multipart/form-data"}
    reply = requests.post(address, b"no boundary", headers=kind, timeout=30)
    assert (reply.status_code, reply.content) == (200, b"no boundary")
