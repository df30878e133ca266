"""A console to measure: a database of the bench's own and one Daphne, reached as anybody reaches it.

With DESKYARD_BENCH_HOME set its database is kept there, so that the largest run is made once and not in each bench.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from console.embedded.home import PROJECT, Home
from console.embedded.postgres import EmbeddedPostgres
from console.embedded.processes import end_process, ending_with_parent

HOST = "127.0.0.1"
START_SECONDS = 60.0
END_SECONDS = 10.0
FRAME_BYTES = 2 << 20


@dataclass(frozen=True)
class Console:
    """`cookie` is the demo owner's session, `token` the owner's API token, `worker_token` one that may connect."""

    url: str
    workspace: str
    cookie: str
    token: str
    worker_token: str
    pid: int

    @property
    def socket_url(self) -> str:
        return self.url.replace("http", "ws", 1)


class ConsoleFailed(Exception):
    """The bench's console does not come up; the message says why."""


@contextlib.contextmanager
def console(folder: Path) -> Iterator[Console]:
    """Up until the context ends. Django is set up in this process too, on the same database.

    Raises ConsoleFailed, PostgresFailed.
    """
    kept = os.environ.get("DESKYARD_BENCH_HOME", "")
    home = Home(Path(kept).absolute() if kept else folder / "console")
    with EmbeddedPostgres(home) as server:
        port = _free_port()
        url = f"http://{HOST}:{port}"
        environment = {
            **os.environ,
            **home.keys(),
            "DESKYARD_HOME": str(home.root),
            "DATABASE_URL": server.url,
            "DESKYARD_PUBLIC_URL": url,
            "DESKYARD_LOG_LEVEL": "ERROR",
            "DJANGO_SETTINGS_MODULE": "console.settings",
        }
        _manage(environment, "demo", "--migrate", "--url", url, f"--image=basic=sha256:{'0' * 64}")
        os.environ.update(environment)
        demo = json.loads(home.demo.read_text())
        with _daphne(environment, port, home.logs / "bench-console.log") as process:
            _until_it_answers(url, process, home.logs / "bench-console.log")
            yield Console(
                url,
                demo["workspace"],
                _cookie(demo["email"]),
                demo["token"],
                home.worker_token.read_text().strip(),
                process.pid,
            )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _manage(environment: dict[str, str], *arguments: str) -> None:
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(
        command,
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise ConsoleFailed(f"manage.py {arguments[0]}: {done.stderr.strip()[-500:]}")


@contextlib.contextmanager
def _daphne(environment: dict[str, str], port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "daphne", "-b", HOST, "-p", str(port)]
    command += [f"--websocket-max-{what}-size={FRAME_BYTES}" for what in ("message", "frame")]
    with log.open("ab") as file:
        process = subprocess.Popen(
            ending_with_parent(signal.SIGTERM, [*command, "console.asgi:application"]),
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        yield process
    finally:
        end_process(process, (signal.SIGTERM, signal.SIGKILL), seconds=END_SECONDS)


def _until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{url}/v1/keys", timeout=5):  # noqa: S310 (our own address)
                return
        except (urllib.error.URLError, ConnectionError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise ConsoleFailed(f"it does not answer: {error}; its log is {log}") from error
            time.sleep(0.1)  # between two probes


def _cookie(email: str) -> str:
    """A session of this person, made as signing in makes it."""
    import django

    django.setup()
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore
    from django.db import connections

    from console.models import User

    connections.close_all()  # of a server that an earlier part has ended
    user: Any = User.objects.get(email=email)
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return f"sessionid={session.session_key}"
