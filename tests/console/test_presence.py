"""A console is known to be there for as long as its session with the database lives."""

from __future__ import annotations

import time

import psycopg
import pytest

from console import presence
from console.doorbell import connection_arguments

pytestmark = pytest.mark.django_db


def test_a_console_is_there_until_its_session_ends() -> None:
    assert not presence.anybody()
    with psycopg.connect(**connection_arguments(), autocommit=True) as link:  # type: ignore[arg-type]
        link.execute("SELECT pg_advisory_lock_shared(%s)", [presence.LOCK])
        assert presence.anybody()
    end = time.monotonic() + 30
    while presence.anybody():  # the server takes a moment to let a session go
        assert time.monotonic() < end
