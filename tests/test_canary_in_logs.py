"""A console as it is started in life: whatever is sent to it, no secret is in what its process writes."""

from __future__ import annotations

import base64
import http.client
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

from console.redaction import MARK

pytestmark = pytest.mark.django_db
TOKEN = "dy_" + "0a1b2c3d" * 8
LINK = "Qm9va3Mtb2YtdGhlLWhvdXNl_0123456789abcdef"
GIVEN = {
    "DJANGO_SECRET_KEY": "canary-of-the-sessions-0123456789",
    "DESKYARD_SIGNING_KEY": base64.b64encode(b"canary of the signing key, 32 b.").decode(),
    "DESKYARD_SECRET_KEYS": Fernet.generate_key().decode(),
    "EMAIL_HOST_PASSWORD": "canary-of-the-mail-server",
}
COOKIE = "canary0session0cookie0abcdefghij"


@pytest.fixture
def console(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """Its port and its log."""
    where = connection.settings_dict
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    host, user = str(where["HOST"]), where["USER"] + (f":{where['PASSWORD']}" if where["PASSWORD"] else "")
    tail = f"?host={host}" if host.startswith("/") else ""
    server = "" if tail else f"{host}:{where['PORT']}"
    environment = {
        **os.environ,
        **GIVEN,
        "DATABASE_URL": f"postgresql://{user}@{server}/{where['NAME']}{tail}",
        "DESKYARD_HOME": str(tmp_path / "home"),
        "DESKYARD_LOG_LEVEL": "DEBUG",
        "PYTHONWARNINGS": "",
    }
    log = tmp_path / "console.log"
    with log.open("wb") as file:
        command = [sys.executable, "-m", "daphne", "-p", str(port), "console.asgi:application"]
        process = subprocess.Popen(command, env=environment, stdout=file, stderr=file)
    try:
        end = time.monotonic() + 60
        while not _listens(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)  # between two knocks
        yield port, log
    finally:
        process.terminate()
        process.wait(30)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_nothing_that_is_sent_to_it_makes_it_write_a_secret(console: tuple[int, Path]) -> None:
    port, log = console
    bearer = {"Authorization": f"Bearer {TOKEN}", "Cookie": f"sessionid={COOKIE}; csrftoken={COOKIE}"}
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for method, address, body, headers in (
        ("GET", "/v1/runs", None, bearer),
        ("GET", f"/v1/runs?token={TOKEN}", None, {}),
        ("GET", f"/v1/attempts/{TOKEN}", None, bearer),
        ("GET", f"/invitations/{LINK}/", None, {}),
        ("POST", "/v1/runs", f'{{"name": "{TOKEN}"}}', {**bearer, "Content-Type": "application/json"}),
        ("POST", "/v1/runs", f"name={TOKEN}", {**bearer, **form}),
        ("POST", "/v1/runs", "--x", {**bearer, "Content-Type": "multipart/form-data; boundary="}),
        ("POST", "/accounts/login/", f"login=a%40b.test&password={COOKIE}", {**form, **bearer}),
        ("GET", "/w/lab/", None, {"Host": f"{TOKEN}.example"}),
        ("GET", f"/%0a{TOKEN}", None, {}),
        ("GET", f"/v1/runs?a={TOKEN.replace('_', '%5F')}", None, {}),
        ("BREW", f"/{GIVEN['DJANGO_SECRET_KEY']}", None, bearer),
    ):
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        client.request(method, address, body, headers)
        assert client.getresponse().status < 500, address
        client.close()
    for query in ("", f"?token={TOKEN}"):
        address = f"ws://127.0.0.1:{port}/ws/worker{query}"
        with (
            connect(address, additional_headers=bearer) as link,
            pytest.raises(ConnectionClosed, match="4401"),
        ):
            link.recv(timeout=30)
    with connect(f"ws://127.0.0.1:{port}/ws/live/{LINK}", origin=Origin(f"http://127.0.0.1:{port}")) as link:
        assert "used already" in str(link.recv(timeout=30))
    written = log.read_text(errors="replace")
    assert MARK in written
    assert "/v1/runs" in written
    for secret in (TOKEN, LINK, COOKIE, *GIVEN.values()):
        assert secret not in written, secret
