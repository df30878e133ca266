"""The whole product as it runs in life: PostgreSQL, console, supervisor and workers, each a process of its own.

Tests drive it over HTTP, do to its processes what life does to them, and look into its database by plain SQL.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from console.embedded.api import Api, answers
from console.embedded.home import PROJECT, Home
from console.embedded.postgres import EmbeddedPostgres
from desktops.protocol.messages import LEASE_SECONDS
from desktops.worker.engine.base import Engine
from desktops.worker.engine.choose import RUNC, open_engine, socket_of

from .observer import Containers, ControlGroups, Observer, Seen
from .processes import Program, until

# Shorter than in life, so that the tests need not wait as long; nothing else is different.
HASTE = {"DESKYARD_NO_WORKER_SECONDS": "75"}
TERMINAL = ("completed", "failed", "cancelled")


class Rig:
    """`start` and `close`; `lab` gives the next unused workspace. `digests`: of the templates' images, by name."""

    def __init__(
        self, folder: Path, engine: str, digests: Mapping[str, str], *, labs: int, durable: bool
    ) -> None:
        self.folder, self.engine = folder, engine
        self.home = Home(folder / "home")
        self.postgres = EmbeddedPostgres(self.home, durable=durable)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.observers: list[Observer] = [Containers(socket_of(engine))]
        if engine.startswith(RUNC):
            self.observers.append(ControlGroups(folder))
        self._digests, self._count = digests, labs
        self._labs: list[Lab] = []
        self._lock = threading.Lock()
        self._links = threading.local()
        self._opened: list[psycopg.Connection[dict[str, Any]]] = []
        self.programs: list[Program] = []
        self.console = self._program("console", self._daphne())
        self.supervisor = self.new_supervisor("supervisor")

    @property
    def containers(self) -> str:
        """The machine's container engine, which tells of its containers to whoever asks."""
        return socket_of(self.engine)

    def start(self) -> None:
        self.postgres.start()
        self._prepare()
        self.start_console()
        self.supervisor.start()

    def close(self) -> None:
        for link in self._opened:
            link.close()
        for program in reversed(self.programs):
            program.end()
        self.postgres.stop()
        for observer in self.observers:
            observer.close()

    # ── processes ─────────────────────────────────────────────────────────────────────────────────────────

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DATABASE_URL": self.postgres.url,
            "DESKYARD_HOME": str(self.home.root),
            "DESKYARD_PUBLIC_URL": self.url,
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "DESKYARD_WEBHOOKS_TO_PRIVATE": "1",  # their receivers are on this machine
            **HASTE,
        }

    def _program(
        self, name: str, arguments: list[str], environment: Mapping[str, str] | None = None
    ) -> Program:
        self.home.create()
        program = Program(
            name, arguments, {**self.environment, **(environment or {})}, self.folder / f"{name}.log"
        )
        self.programs.append(program)
        return program

    def _daphne(self) -> list[str]:
        return ["-m", "daphne", "-b", "127.0.0.1", "-p", str(self.port), "console.asgi:application"]

    def start_console(self) -> None:
        self.console.start()
        until(lambda: answers(self.url), 120, "the console's first answer")

    def new_supervisor(self, name: str) -> Program:
        """Not started yet."""
        return self._program(name, ["manage.py", "supervise"])

    def _prepare(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.prepare", str(self._count), json.dumps(self._digests)],
            cwd=PROJECT,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            check=True,
        )
        self._labs = [Lab(self, **lab) for lab in json.loads(done.stdout)]

    def lab(self, *, rate: str | None = None, cap: str | None = None) -> Lab:
        """A workspace of the scenario's own. `rate`: dollars an hour of its template; `cap`: its spend cap."""
        with self._lock:
            lab = self._labs.pop()
        if rate is not None:
            self.write(
                "UPDATE desktops_templateversion SET rate_usd_per_hour = %s WHERE template_id IN "
                "(SELECT id FROM desktops_template WHERE workspace_id = %s)",
                rate,
                lab.key,
            )
        if cap is not None:
            self.write(
                "INSERT INTO console_budget (workspace_id, cap, spent, reserved) VALUES (%s, %s, 0, 0)"
                " ON CONFLICT (workspace_id) WHERE parent_id IS NULL DO UPDATE SET cap = excluded.cap",
                lab.key,
                cap,
            )
        return lab

    def seen(self, owners: set[str]) -> dict[str, Seen]:
        """Every desktop of these workers so far, by computer."""
        return {computer: seen for each in self.observers for computer, seen in each.of(owners).items()}

    def left(self, owners: set[str]) -> list[str]:
        """Desktops of these workers that exist now."""
        return [computer for each in self.observers for computer in each.left(owners)]

    def last_words(self) -> str:
        """For whoever reads a failure: the end of the services' logs, and what the database is at."""
        said = [
            f"── {program.name}\n" + "\n".join(program.log.read_text(errors="replace").splitlines()[-20:])
            for program in (self.console, self.supervisor)
        ]
        busy = self.rows(
            "SELECT state, wait_event, now() - xact_start AS since, left(query, 200) AS query FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid != pg_backend_pid() AND state != 'idle'"
        )
        return "\n".join([*said, "── database", *map(str, busy)])

    # ── the database, as it is stored ─────────────────────────────────────────────────────────────────────

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        try:
            return self._link().execute(query, values).fetchall()  # type: ignore[call-overload, no-any-return]
        except psycopg.OperationalError:  # the database was restarted
            self._links.of_thread = None
            return self._link().execute(query, values).fetchall()  # type: ignore[call-overload, no-any-return]

    def _link(self) -> psycopg.Connection[dict[str, Any]]:
        """This thread's own: tests look often, and a new session each time costs more than the look."""
        link: psycopg.Connection[dict[str, Any]] | None = getattr(self._links, "of_thread", None)
        if link is None:
            link = psycopg.connect(
                self.postgres.url, row_factory=dict_row, connect_timeout=10, autocommit=True
            )
            self._links.of_thread = link
            with self._lock:
                self._opened.append(link)
        return link

    def value(self, query: str, *values: Any) -> Any:
        """The first column of the first row; None without one."""
        found = self.rows(query, *values)
        return next(iter(found[0].values())) if found else None

    def write(self, query: str, *values: Any) -> None:
        self._link().execute(query, values)  # type: ignore[call-overload]


class Worker:
    """A worker process with a home of its own. `url` is another way to the console than the direct one.

    Its desktops are made as this machine's workers make theirs, unless `engine` says how. `warm`: they start from a
    saved one, as in life; else from their beginning, since most of these workers make one or two. `ready`: as many
    stand before they are asked for, which nobody pays for: `invariants.check` is not for them.
    """

    def __init__(
        self,
        lab: Lab,
        name: str,
        *,
        slots: int = 2,
        url: str | None = None,
        home: Path | None = None,
        engine: str | None = None,
        number: int = 1,
        warm: bool = False,
        ready: int = 0,
    ) -> None:
        rig = lab.rig
        self.name, self.warm, self._engine = name, warm, engine or rig.engine
        self.home = home or rig.folder / f"{lab.slug}-{name}-{number}"
        self.home.mkdir(parents=True, exist_ok=True)
        self.program = rig._program(
            f"{lab.slug}-{name}-{number}",
            ["-m", "desktops.worker"],
            {
                "DESKYARD_URL": url or rig.url,
                "DESKYARD_WORKER_TOKEN": lab.worker_token,
                "DESKYARD_WORKER_NAME": name,
                "DESKYARD_WORKER_HOME": str(self.home),
                "DESKYARD_ENGINE": self._engine,
                "DESKYARD_SLOTS": str(slots),
                "DESKYARD_WARM": str(int(warm)),
                "DESKYARD_READY": str(ready),
            },
        )

    @contextlib.contextmanager
    def engine(self) -> Iterator[Engine]:
        """Its engine, for somebody who does something to its desktops."""
        with contextlib.closing(open_engine(self._engine, self.home)) as engine:
            yield engine

    @property
    def owner(self) -> str:
        """Its mark on its containers; empty before its first start."""
        path = self.home / "owner"
        return path.read_text().strip() if path.exists() else ""


class Lab:
    """One scenario's workspace."""

    def __init__(self, rig: Rig, slug: str, tokens: dict[str, str], worker_token: str) -> None:
        self.rig, self.slug, self.tokens, self.worker_token = rig, slug, tokens, worker_token
        self.key = rig.value("SELECT id FROM console_workspace WHERE slug = %s", slug)
        self.workers: list[Worker] = []

    @property
    def owners(self) -> set[str]:
        """The marks of its workers."""
        return {worker.owner for worker in self.workers} - {""}

    def api(self, who: str = "owner") -> Api:
        return Api(self.rig.url, self.tokens[who])

    def worker(self, name: str = "one", *, start: bool = True, **options: Any) -> Worker:
        worker = Worker(self, name, number=len(self.workers) + 1, **options)
        self.workers.append(worker)
        if start:
            self.begin(worker)
        return worker

    def begin(self, worker: Worker) -> None:
        """Start it and wait until the console has heard of it: of this process, not an earlier one's last words."""
        until(
            lambda: (
                not self.rig.value(
                    "SELECT 1 FROM desktops_worker WHERE workspace_id = %s AND name = %s AND connected"
                    " AND last_seen_at > now() - make_interval(secs => %s)",
                    self.key,
                    worker.name,
                    LEASE_SECONDS,
                )
            ),
            120,
            f"the end of worker {worker.name}'s earlier connection",
        )
        since = self.rig.value("SELECT now()")
        worker.program.start()
        self.await_worker(worker, since)

    def await_worker(self, worker: Worker, since: Any, seconds: float = 120) -> None:
        until(
            lambda: self.rig.value(
                "SELECT 1 FROM desktops_worker WHERE workspace_id = %s AND name = %s AND connected"
                " AND last_seen_at > %s",
                self.key,
                worker.name,
                since,
            ),
            seconds,
            f"worker {worker.name} at the console",
        )

    def run(self, *tasks: str, who: str = "owner", **changes: Any) -> str:
        """Create a run over HTTP; its id."""
        document = {
            "kind": "scripted_test",
            "name": "a scenario",
            "task_set": "courses",
            "tasks": list(tasks),
            "template": "basic@1",
            "max_steps": 50,
            "spend_cap_usd": "5.00",
            "time_cap_minutes": 30,
        }
        return str(self.api(who).post("/v1/runs", document | changes)["id"])

    def status(self, run: str) -> str:
        return str(self.rig.value("SELECT status FROM runs_run WHERE id = %s", run))

    def await_status(self, run: str, *wanted: str, seconds: float = 120) -> str:
        def look() -> str:
            status = self.status(run)
            return status if status in wanted else ""

        return until(look, seconds, f"{self.slug}: {' or '.join(wanted)}")

    def await_end(self, run: str, seconds: float = 120) -> tuple[str, str]:
        """(status, stop reason) once it has ended."""
        self.await_status(run, *TERMINAL, seconds=seconds)
        row = self.rig.rows("SELECT status, stop_reason FROM runs_run WHERE id = %s", run)[0]
        return row["status"], row["stop_reason"]

    def await_playing(self, run: str, attempts: int = 1, seconds: float = 120) -> None:
        """Until so many attempts have taken their first look at a ready desktop."""
        until(
            lambda: (
                self.rig.value(
                    "SELECT count(*) FROM runs_event WHERE run_id = %s AND kind = 'setup_done'", run
                )
                >= attempts
            ),
            seconds,
            f"{self.slug}: {attempts} playing",
        )

    def attempts(self, run: str) -> list[dict[str, Any]]:
        return self.rig.rows("SELECT * FROM runs_attempt WHERE run_id = %s ORDER BY number", run)

    def tries(self, run: str) -> list[dict[str, Any]]:
        return self.rig.rows(
            "SELECT t.*, a.number AS attempt_number, w.name AS worker_name FROM runs_attempttry t"
            " JOIN runs_attempt a ON a.id = t.attempt_id"
            " JOIN desktops_assignment s ON s.id = t.assignment_id JOIN desktops_worker w ON w.id = s.worker_id"
            " WHERE a.run_id = %s ORDER BY a.number, t.number",
            run,
        )

    def statuses(self, run: str) -> list[str]:
        """Every status that the run has passed through, as its log tells."""
        told = self.rig.rows(
            "SELECT data->>'new' AS new FROM runs_event WHERE run_id = %s AND kind = 'run_status' ORDER BY seq",
            run,
        )
        return ["queued", *(row["new"] for row in told)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
