"""A whole console for the browser: database, console, supervisor and worker, each a process of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from django.db import connections
from playwright.sync_api import Page, sync_playwright
from psycopg import sql

from console.embedded.api import answers
from console.embedded.home import PROJECT
from console.embedded.processes import ending_with_parent
from tests.desktops.conftest import engine_address, image

__all__ = ["engine_address", "image"]  # fixtures

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 180


@dataclass(frozen=True)
class Site:
    """`demo` is what `manage.py demo` wrote: email, password, token, workspace. `database` is its URL."""

    url: str
    demo: dict[str, str]
    logs: Path
    database: str


@pytest.fixture(scope="module")
def site(
    django_db_modify_db_settings: None,
    engine_address: str,
    image: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    """From an empty database to a console with the demo workspace and a connected worker."""
    home = tmp_path_factory.mktemp("site")
    (home / "static").mkdir()
    with ExitStack() as stack:
        port = _free_port()
        url = f"http://127.0.0.1:{port}"
        environment = {
            **os.environ,
            "DATABASE_URL": (database := stack.enter_context(_database())),
            "DESKYARD_HOME": str(home),
            "DESKYARD_PORT": str(port),
            "DESKYARD_PUBLIC_URL": url,
            "DESKYARD_URL": url,
            "DESKYARD_ENGINE": engine_address,
            "DESKYARD_WORKER_TOKEN_FILE": str(home / "worker-token"),
            "DESKYARD_WORKER_HOME": str(home / "worker"),
        }
        demo = [sys.executable, "manage.py", "demo", "--migrate", "--url", url]
        subprocess.run(
            [*demo, f"--image=basic={image('basic')}"], cwd=PROJECT, env=environment, check=True, timeout=240
        )
        daphne = [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port)]
        stack.enter_context(_process("console", [*daphne, "console.asgi:application"], environment, home))
        _until(lambda: answers(url), "the console to answer", home / "console.log")
        supervisor = [sys.executable, "manage.py", "supervise"]
        stack.enter_context(_process("supervisor", supervisor, environment, home))
        worker = [sys.executable, "-m", "desktops.worker"]
        stack.enter_context(_process("worker", worker, environment, home))
        yield Site(url, json.loads((home / "demo.json").read_text()), home, database)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class _database:
    """A database of its own on the tests' server; its URL."""

    def __enter__(self) -> str:
        known = connections["default"].settings_dict
        self._server = {
            "host": known["HOST"] or None,
            "port": known["PORT"] or None,
            "user": known["USER"] or None,
            "password": known["PASSWORD"] or None,
            "dbname": "postgres",
        }
        self._name = f"deskyard_browser_{os.getpid()}"
        self._do("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self._do("CREATE DATABASE {}")
        who = quote(known["USER"] or "", safe="")
        secret = f":{quote(known['PASSWORD'], safe='')}" if known["PASSWORD"] else ""
        where = quote(known["HOST"] or "localhost", safe="")
        port = f":{known['PORT']}" if known["PORT"] else ""
        return f"postgresql://{who}{secret}@{where}{port}/{self._name}"

    def __exit__(self, *exception: object) -> None:
        self._do("DROP DATABASE IF EXISTS {} WITH (FORCE)")

    def _do(self, statement: str) -> None:
        with psycopg.connect(**self._server, autocommit=True) as link:  # type: ignore[arg-type]
            link.execute(sql.SQL(statement).format(sql.Identifier(self._name)))


class _process:
    """Runs until the end of the block; its words go to a log."""

    def __init__(self, name: str, command: list[str], environment: dict[str, str], logs: Path) -> None:
        self._command, self._environment, self._log = command, environment, logs / f"{name}.log"

    def __enter__(self) -> None:
        self._file = self._log.open("w")
        self._running = subprocess.Popen(
            ending_with_parent(signal.SIGTERM, self._command),
            cwd=PROJECT,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.STDOUT,
        )

    def __exit__(self, *exception: object) -> None:
        self._running.terminate()
        try:
            self._running.wait(30)
        except subprocess.TimeoutExpired:
            self._running.kill()
            self._running.wait()
        self._file.close()


def _until(there: Callable[[], bool], what: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not there():
        if time.monotonic() > deadline:
            pytest.fail(f"Waited {START_SECONDS} s for {what}:\n{log.read_text()[-2000:]}")
        time.sleep(0.1)


@pytest.fixture
def browser_tab() -> Iterator[tuple[Page, list[str]]]:
    """A tab in headless Chromium, and what its console complained about, the policy's refusals included."""
    program = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if program is None:
        pytest.fail("There is no Chromium; apt-get install chromium, or run make test, which does.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            context = browser.new_context(viewport={"width": 1440, "height": 900}, color_scheme="light")
            tab = context.new_page()
            complaints: list[str] = []
            tab.on("console", lambda message: _note(complaints, message))
            tab.on("pageerror", lambda error: complaints.append(str(error)))
            yield tab, complaints
        finally:
            browser.close()


def _note(complaints: list[str], message: Any) -> None:
    if message.type in ("error", "warning"):
        complaints.append(message.text)
