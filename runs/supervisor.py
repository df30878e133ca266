"""The supervisor: one pass reconciles everything, is safe to repeat and safe to kill.

One process leads, by an advisory lock that PostgreSQL frees when its session dies; any other is a hot spare. A leader
that stands still (stopped, or its machine gone without a word) asks nothing of the database: PostgreSQL ends its
session then, and should it move again, its next statement fails before it can do anything.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import psycopg
from django.db import InterfaceError, OperationalError, connection
from django.utils import timezone

from console import presence
from console.doorbell import listen_blocking
from desktops.actions import computers, drafts, holds, lease, states
from desktops.models import Assignment, Computer
from runs.actions.advance import advance_run
from runs.models import Run
from runs.receipt import note_sweeps

log = logging.getLogger(__name__)
TICK_SECONDS = 1.0
Work = tuple[str, Callable[[], Iterable[Any]], Callable[[Any], object]]
_work: list[Work] = []  # what apps above this one have going
SILENT_SECONDS = 10  # a leader whose session has been idle for so long leads no more; it looks each second
LEADER_LOCK = 0x6465736B  # "desk"


def advance_also(name: str, going: Callable[[], Iterable[Any]], advance: Callable[[Any], object]) -> None:
    """Have each pass call `advance` with each of `going()`; `name` is what the log calls one."""
    _work.append((name, going, advance))


def look() -> None:
    """One pass. While no console is there to hear workers, their silence is not held against them."""
    if not presence.anybody():
        lease.grace()
    one_pass()


def one_pass() -> None:
    """Lose what went quiet, settle what ended by itself, look after computers, advance runs, let go what has expired.

    Each of these is a transaction of its own, and one that breaks keeps none of the others waiting: it is in the
    log, and the next pass tries it again.
    """
    now = timezone.now()
    quiet = Assignment.objects.live().filter(lease_until__lt=now).select_related("worker")
    for assignment in quiet.order_by("lease_until"):
        with _alone(f"Losing {assignment}"):
            if not lease.may_return(assignment) and lease.lose(assignment):
                log.warning("Lost %s", assignment)
    unpaid = Computer.objects.held().exclude(assignment__status__in=Assignment.LIVE)
    for computer in unpaid.filter(computers.over(now)).select_related("assignment"):
        with _alone(f"Settling {computer.pk}"):
            computers.presume_gone(computer)
    for hold_id in holds.open_now():  # before the runs: somebody waits for each of these
        with _alone(f"Looking after computer {hold_id}"):
            holds.look_after(hold_id)
    for run_id in Run.objects.active().order_by("created_at").values_list("pk", flat=True):
        with _alone(f"Advancing run {run_id}"):
            advance_run(run_id)
    for name, going, advance in _work:
        for one in going():
            with _alone(f"Advancing {name} {one}"):
                advance(one)
    with _alone("Letting saved desktops go"):
        states.expire()
    with _alone("Clearing discarded images"):
        drafts.clear_discarded()
    with _alone("Noting sweeps"):
        note_sweeps()


@contextlib.contextmanager
def _alone(what: str) -> Iterator[None]:
    """Whatever breaks inside is logged and stays there, but for a database that is away: that ends the pass."""
    try:
        yield
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("%s failed; the other runs go on", what)


def lead() -> bool:
    """Try to become the one leader, with this database session, for as long as that is not idle for too long."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LEADER_LOCK])
        if not cursor.fetchone()[0]:
            return False
        for limit in ("idle_session_timeout", "idle_in_transaction_session_timeout"):
            cursor.execute("SELECT set_config(%s, %s, false)", [limit, f"{SILENT_SECONDS}s"])
        return True


def supervise(stopping: Callable[[], bool]) -> None:
    """Pass on each ring and at least each second, until told to stop. Outlives a restart of PostgreSQL."""
    while not stopping():
        try:
            _lead_while_connected(stopping)
        except (OperationalError, InterfaceError, psycopg.OperationalError) as error:
            log.warning("The database went away, dialling again: %s", error)
            connection.close()
            time.sleep(TICK_SECONDS)  # nothing to probe: the next dial is the probe


def _lead_while_connected(stopping: Callable[[], bool]) -> None:
    leading: object = None  # the database session that holds the lock
    for _ in listen_blocking("supervisor", TICK_SECONDS):
        if stopping():
            return
        if leading is None or leading is not connection.connection:
            if not lead():  # taken once: the lock lives as long as this database session
                leading = None
                continue
            leading = connection.connection
            log.info("Leading.")
            lease.grace()
        look()
