"""Is any console there to hear? Each one holds a shared advisory lock for as long as its process lives.

PostgreSQL frees the lock with the session, so a console that was killed is known to be gone at once. Who counts time
against the silence of workers asks `anybody`: while no console listens, silence is nobody's fault.
"""

from __future__ import annotations

import logging
import threading
import time

import psycopg
from django.db import connection

from .doorbell import connection_arguments

LOCK = 0x68656172  # "hear"
PAUSE_SECONDS = 1.0
IDLE_SECONDS = 60.0
log = logging.getLogger(__name__)


def announce() -> None:
    """This process is a console. Returns at once; a thread holds the lock and takes it again after a restart."""
    threading.Thread(target=_hold, name="presence", daemon=True).start()


def anybody() -> bool:
    """True while some console holds the lock, of this database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 AND objid = %s"
            " AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))",
            [LOCK],
        )
        return bool(cursor.fetchone()[0])


def _hold() -> None:
    while True:
        try:
            with psycopg.connect(**connection_arguments(), autocommit=True) as link:  # type: ignore[arg-type]
                link.execute("SELECT pg_advisory_lock_shared(%s)", [LOCK])
                while True:  # ends with an error when the session does
                    for _ in link.notifies(timeout=IDLE_SECONDS):
                        pass
                    link.execute("SELECT 1")  # a server that vanished without a word
        except psycopg.OperationalError as error:
            log.warning("This console's presence lost the database, dialling again: %s", error)
            time.sleep(PAUSE_SECONDS)  # nothing to probe: the next dial is the probe
