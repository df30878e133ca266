"""A serving console's requests share connections: see console.pool."""

from __future__ import annotations

import threading
from copy import deepcopy
from typing import Any

import pytest
from django.db import connection, connections

from console.pool import use_pool

pytestmark = pytest.mark.django_db(transaction=True)


def test_one_thread_after_another_gets_the_same_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "settings", deepcopy(connections.settings))
    use_pool()
    # Only new threads' connections are made from these settings; the test's own stays as it is.
    sessions: list[int] = []
    for _ in range(12):
        thread = threading.Thread(target=_ask, args=[sessions])
        thread.start()
        thread.join()
    assert len(sessions) == 12
    # Two are always there; a thread that comes before one is back gets one more.
    assert len(set(sessions)) < 6


def _ask(sessions: list[Any]) -> None:
    """What a request's thread does."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        sessions.append(cursor.fetchone()[0])
    connection.close()


@pytest.fixture(autouse=True)
def _no_pool_is_left() -> Any:
    yield
    from django.db.backends.postgresql.base import DatabaseWrapper

    for pool in DatabaseWrapper._connection_pools.values():
        pool.close()
    DatabaseWrapper._connection_pools.clear()
