"""What the console has not acknowledged yet, on disk: records in order, and which assignments are still open.

Every record gets the next number, without a gap, for the life of the spool (its `instance`). A record is
on disk
when `append` returns, so a killed worker sends it again. What is acknowledged is forgotten.
"""

from __future__ import annotations

import errno
import fcntl
import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

MAX_RECORD = 512 * 1024  # bytes of JSON: always fits a frame together with its envelope
BALLAST = 8 << 20  # bytes kept aside: on a full disk they are freed, so that endings can still be written
REMEMBER_SECONDS = 24 * 3600  # how long an ended assignment is known, so that a late offer is not taken again

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS item (
    number INTEGER PRIMARY KEY, assignment TEXT NOT NULL, epoch INTEGER NOT NULL,
    record TEXT NOT NULL, blobs TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS assignment (
    id TEXT NOT NULL, epoch INTEGER NOT NULL, kind TEXT NOT NULL, taken_at REAL NOT NULL,
    paid_until TEXT NOT NULL, ended INTEGER, PRIMARY KEY (id, epoch)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS computer (
    id TEXT PRIMARY KEY, assignment TEXT NOT NULL, epoch INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS intended (
    computer TEXT PRIMARY KEY, assignment TEXT NOT NULL, epoch INTEGER NOT NULL, at TEXT NOT NULL) WITHOUT ROWID;
"""


class SpoolFull(Exception):
    """The spool's disk is full: nothing more can be recorded there."""


class SpoolBusy(Exception):
    """Another worker uses this spool; give each worker a DESKYARD_WORKER_HOME of its own."""


class RecordTooLarge(Exception):
    """A record is larger than a frame may be."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """`record` is its JSON text; `blobs` are the digests it names, which must be stored before it is sent."""

    number: int
    assignment: str
    epoch: int
    record: str
    blobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """An assignment the spool knows. `ended` is the number of its last record, None while it is open."""

    assignment: str
    epoch: int
    kind: str
    paid_until: datetime
    ended: int | None


class Spool:
    """Any thread may call any method."""

    def __init__(self, folder: Path, *, ballast: int = BALLAST) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.RLock()
        self._file = _lock_file(folder / "lock")
        self._ballast, self._ballast_size = folder / "ballast", ballast
        self._db = sqlite3.connect(folder / "spool.db", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        # FULL: an acknowledged number must never be given out again, not even after a power cut.
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA wal_autocheckpoint=256")  # pages: keeps the log of a busy spool near 1 MiB
        self._db.executescript(SCHEMA)
        self._on_append: list[Callable[[], None]] = []
        self._keep_ballast()
        with self._writing():
            for name, value in (("instance", str(uuid.uuid4())), ("last", "0"), ("acknowledged", "0")):
                self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, value))
            self._db.execute(
                "DELETE FROM assignment WHERE ended <= ? AND taken_at < ?",
                (int(self._meta("acknowledged")), time.time() - REMEMBER_SECONDS),
            )

    def close(self) -> None:
        with self._lock:
            self._db.close()
            self._file.close()

    # ── records ───────────────────────────────────────────────────────────────────────────────────────────

    @property
    def instance(self) -> str:
        """UUID of this sequence of numbers."""
        with self._lock:
            return self._meta("instance")

    @property
    def last(self) -> int:
        """The highest number given out."""
        with self._lock:
            return int(self._meta("last"))

    @property
    def acknowledged(self) -> int:
        """Everything up to here is stored by the console and forgotten here."""
        with self._lock:
            return int(self._meta("acknowledged"))

    def on_append(self, call: Callable[[], None]) -> None:
        """`call` runs after each append, in the appending thread."""
        self._on_append.append(call)

    def append(
        self,
        assignment: str,
        epoch: int,
        record: dict[str, Any],
        *,
        blobs: Iterable[str] = (),
        last: bool = False,
        computer: tuple[str, bool] | None = None,
    ) -> int:
        """Store a record and give its number. `last` ends the assignment; `computer` is (id, exists from
        now on).

        Raises SpoolFull, RecordTooLarge.
        """
        text = json.dumps(record, separators=(",", ":"), ensure_ascii=False)
        if len(text.encode()) > MAX_RECORD:
            raise RecordTooLarge(f"a {record.get('kind')} record of {len(text.encode())} bytes")
        with self._writing():
            number = int(self._meta("last")) + 1
            self._set("last", number)
            self._db.execute(
                "INSERT INTO item VALUES (?, ?, ?, ?, ?)",
                (number, assignment, epoch, text, " ".join(dict.fromkeys(blobs))),
            )
            if computer is not None:
                name, exists = computer
                self._db.execute("DELETE FROM intended WHERE computer = ?", (name,))
                if exists:
                    self._db.execute(
                        "INSERT OR REPLACE INTO computer VALUES (?, ?, ?)", (name, assignment, epoch)
                    )
                else:
                    self._db.execute("DELETE FROM computer WHERE id = ?", (name,))
            if last:
                self._db.execute(
                    "DELETE FROM intended WHERE assignment = ? AND epoch = ?", (assignment, epoch)
                )
                self._db.execute(
                    "UPDATE assignment SET ended = ? WHERE id = ? AND epoch = ?", (number, assignment, epoch)
                )
        for call in self._on_append:
            call()
        return number

    def after(self, number: int, *, limit: int) -> list[Spooled]:
        """The next `limit` records after `number`, in order."""
        with self._lock:
            rows = self._db.execute(
                "SELECT number, assignment, epoch, record, blobs FROM item WHERE number > ? "
                "ORDER BY number LIMIT ?",
                (number, limit),
            ).fetchall()
        return [Spooled(row[0], row[1], row[2], row[3], tuple(row[4].split())) for row in rows]

    def owner(self, number: int) -> tuple[str, int] | None:
        """(assignment, epoch) of a record that is still here."""
        with self._lock:
            row = self._db.execute(
                "SELECT assignment, epoch FROM item WHERE number = ?", (number,)
            ).fetchone()
        return (row[0], row[1]) if row else None

    def acknowledge(self, applied: int) -> set[str]:
        """Forget everything up to `applied`. Gives the blobs that no remaining record names."""
        with self._writing():
            applied = min(applied, int(self._meta("last")))
            if applied <= int(self._meta("acknowledged")):
                return set()
            gone = self._named("number <= ?", applied)
            self._db.execute("DELETE FROM item WHERE number <= ?", (applied,))
            self._set("acknowledged", applied)
            freed = gone - self._named("number > ?", applied)
        self._keep_ballast()
        return freed

    def named_blobs(self) -> set[str]:
        """All blobs that an unacknowledged record names."""
        with self._lock:
            return self._named("number > ?", 0)

    def fits(self, applied: int) -> bool:
        """Whether a console that has stored up to `applied` can go on from this spool without a gap."""
        with self._lock:
            return int(self._meta("acknowledged")) <= applied <= int(self._meta("last"))

    def renew(self) -> None:
        """Become a new instance and number what is left from 1: for a console whose memory does not fit
        ours.
        """
        with self._writing():
            rows = self._db.execute("SELECT number FROM item ORDER BY number").fetchall()
            for new, (old,) in enumerate(rows, start=1):
                self._db.execute("UPDATE item SET number = ? WHERE number = ?", (new, old))
                self._db.execute("UPDATE assignment SET ended = ? WHERE ended = ?", (new, old))
            if not rows:
                self._db.execute("UPDATE assignment SET ended = 0 WHERE ended IS NOT NULL")
            self._set("instance", str(uuid.uuid4()))
            self._set("last", len(rows))
            self._set("acknowledged", 0)

    # ── assignments ───────────────────────────────────────────────────────────────────────────────────────

    def take(self, assignment: str, epoch: int, kind: str, paid_until: datetime) -> bool:
        """Note that an assignment was taken; False if this epoch of it, or a later one, already was."""
        with self._writing():
            newest = self._db.execute(
                "SELECT max(epoch) FROM assignment WHERE id = ?", (assignment,)
            ).fetchone()
            if newest[0] is not None and newest[0] >= epoch:
                return False
            self._db.execute(
                "INSERT INTO assignment VALUES (?, ?, ?, ?, ?, NULL)",
                (assignment, epoch, kind, time.time(), paid_until.isoformat()),
            )
            return True

    def extend(self, assignment: str, epoch: int, paid_until: datetime) -> None:
        """Note until when its desktop is paid: a worker that was killed needs it for its account."""
        with self._writing():
            self._db.execute(
                "UPDATE assignment SET paid_until = ? WHERE id = ? AND epoch = ?",
                (paid_until.isoformat(), assignment, epoch),
            )

    def taken(self) -> list[Taken]:
        """Assignments that are open, or whose last record the console has not acknowledged."""
        with self._lock:
            rows = self._db.execute(
                "SELECT id, epoch, kind, paid_until, ended FROM assignment WHERE ended IS NULL OR ended > ?",
                (int(self._meta("acknowledged")),),
            ).fetchall()
        return [Taken(row[0], row[1], row[2], datetime.fromisoformat(row[3]), row[4]) for row in rows]

    def computers(self, assignment: str, epoch: int) -> list[str]:
        """Desktops of an assignment that were recorded as started and not as stopped."""
        with self._lock:
            rows = self._db.execute(
                "SELECT id FROM computer WHERE assignment = ? AND epoch = ?", (assignment, epoch)
            ).fetchall()
        return [row[0] for row in rows]

    def intend(self, assignment: str, epoch: int, computer: str, at: datetime) -> None:
        """Note that a desktop is about to be made: should this process end before it is recorded, it still costs."""
        with self._writing():
            self._db.execute(
                "INSERT OR REPLACE INTO intended VALUES (?, ?, ?, ?)",
                (computer, assignment, epoch, at.isoformat()),
            )

    def intended(self, assignment: str, epoch: int) -> list[tuple[str, datetime]]:
        """(computer, since when) of desktops that may have been made, and were not recorded as started."""
        with self._lock:
            rows = self._db.execute(
                "SELECT computer, at FROM intended WHERE assignment = ? AND epoch = ?", (assignment, epoch)
            ).fetchall()
        return [(row[0], datetime.fromisoformat(row[1])) for row in rows]

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield
                self._db.execute("COMMIT")
            except BaseException as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                if _is_full(error):
                    freed = self._ballast.exists()
                    self._ballast.unlink(missing_ok=True)
                    raise SpoolFull(
                        f"the disk of {self._ballast.parent} is full"
                        + ("; reserved space was freed for the endings" if freed else "")
                    ) from error
                raise

    def _keep_ballast(self) -> None:
        if self._ballast.exists() or not self._ballast_size:
            return
        try:
            self._ballast.write_bytes(bytes(self._ballast_size))
        except OSError as error:
            self._ballast.unlink(missing_ok=True)
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def _meta(self, name: str) -> str:
        return str(self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()[0])

    def _set(self, name: str, value: object) -> None:
        self._db.execute("UPDATE meta SET value = ? WHERE name = ?", (str(value), name))

    def _named(self, where: str, number: int) -> set[str]:
        query = f"SELECT blobs FROM item WHERE {where} AND blobs != ''"  # noqa: S608 (`where` is ours)
        return {blob for (text,) in self._db.execute(query, (number,)) for blob in text.split()}


def _is_full(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, sqlite3.OperationalError) and (
        getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    )


def _lock_file(path: Path) -> IO[bytes]:
    file = path.open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        file.close()
        raise SpoolBusy(f"another worker uses {path.parent}; set DESKYARD_WORKER_HOME") from error
    return file
