"""Connections of a serving console come from a pool.

Under ASGI each request has a thread of its own, and Django's connections belong to threads: without a pool each request
would dial the database anew, which costs more than most pages do.
"""

from __future__ import annotations

from typing import Final

from django.db import connections

# One is always there for the sockets' thread; requests take turns at the rest, and wait this long for one.
LEAST: Final = 2
MOST: Final = 20
PATIENCE_SECONDS: Final = 5.0
# A database that was away is dialled again by the next that asks, not in ever longer pauses.
REDIAL_SECONDS: Final = 5.0


def use_pool() -> None:
    """From now on, in this process. A connection is checked before it is handed out."""
    database = connections.settings["default"]
    database["CONN_MAX_AGE"] = 0  # given back after each request
    database["OPTIONS"] = {
        **database.get("OPTIONS", {}),
        "pool": {
            "min_size": LEAST,
            "max_size": MOST,
            "timeout": PATIENCE_SECONDS,
            "reconnect_timeout": REDIAL_SECONDS,
        },
    }
