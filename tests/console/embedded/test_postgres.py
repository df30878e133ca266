"""The embedded PostgreSQL. Real servers in folders of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from console.embedded.home import PROJECT, Home
from console.embedded.postgres import EmbeddedPostgres, PostgresFailed
from console.embedded.processes import is_running, wait_for_end


@pytest.fixture
def home(passable: Path) -> Home:
    return Home(passable / "home")


def server(home: Home) -> EmbeddedPostgres:
    return EmbeddedPostgres(home, durable=False)


def run(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute(statement)
        return found.fetchall() if found.description else []


def test_what_was_stored_is_there_after_the_next_start(home: Home) -> None:
    with server(home) as first:
        run(first.url, "CREATE TABLE kept AS SELECT 'grüße'::text AS word")
        pid = first.pid
    assert pid is not None
    assert not is_running(pid)
    with server(home) as second:
        assert run(second.url, "SELECT word FROM kept") == [("grüße",)]
        assert home.database_url.read_text().strip() == second.url
        assert home.database_url.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_is_called_so(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that fills up after its room was looked at."""
    monkeypatch.setattr("console.embedded.home.ROOM_BYTES", 0)
    home.root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(home.root)], check=True)
    try:
        with pytest.raises(PostgresFailed, match=f"the disk of {home.root} is full"):
            server(home).start()
    finally:
        subprocess.run(["umount", str(home.root)], check=True)


def test_a_server_that_was_killed_starts_again_with_its_data(home: Home) -> None:
    first = EmbeddedPostgres(home)
    first.start()
    run(first.url, "CREATE TABLE kept (n int)")
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    wait_for_end(first.pid, seconds=5)
    first.stop()
    assert (home.postgres / "postmaster.pid").exists()
    with server(home) as second:
        assert run(second.url, "SELECT count(*) FROM kept") == [(0,)]


def test_a_session_that_outlives_its_killed_server_does_not_keep_the_next_from_starting(home: Home) -> None:
    first = EmbeddedPostgres(home, durable=False)
    first.start()
    assert first.pid is not None
    with psycopg.connect(first.url) as connection:
        session = connection.info.backend_pid
        os.kill(session, signal.SIGSTOP)
        os.kill(first.pid, signal.SIGKILL)
        wait_for_end(first.pid, seconds=5)
        first.stop()
        assert is_running(session)
        with server(home) as second:
            assert run(second.url, "SELECT 1") == [(1,)]
        assert not is_running(session)


def test_a_server_that_died_is_noticed_and_started_again(home: Home) -> None:
    with EmbeddedPostgres(home) as running:
        run(running.url, "CREATE TABLE kept (n int)")
        assert running.pid is not None
        assert not running.died()
        os.kill(running.pid, signal.SIGKILL)
        wait_for_end(running.pid, seconds=5)
        assert running.died()
        running.restart()
        assert run(running.url, "SELECT count(*) FROM kept") == [(0,)]


def test_a_pid_file_that_names_another_process_is_forgotten(home: Home) -> None:
    with server(home):
        pass
    stale = f"{os.getppid()}\n{home.postgres}\n1\n5432\n{home.postgres}\n\n  1 1\nready   \n"
    (home.postgres / "postmaster.pid").write_text(stale)
    with server(home) as second:
        assert run(second.url, "SELECT 1") == [(1,)]
    assert is_running(os.getppid())


def test_a_first_start_that_was_cut_short_is_done_again(home: Home) -> None:
    half = home.root / "postgres.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18")
    with server(home) as whole:
        assert run(whole.url, "SELECT 1") == [(1,)]
    assert not half.exists()


def test_a_second_owner_uses_the_running_server_and_leaves_it_alone(home: Home) -> None:
    with server(home) as first:
        with server(home) as second:
            assert second.pid is None
            assert run(second.url, "SELECT 1") == [(1,)]
        assert run(first.url, "SELECT 1") == [(1,)]


def test_nobody_else_may_enter_the_folder_of_its_socket(home: Home) -> None:
    with server(home) as running:
        assert running.socket_folder.stat().st_mode & 0o077 == 0


def test_a_path_too_long_for_a_socket_gets_a_shorter_one(passable: Path) -> None:
    with server(Home(passable / ("long" * 30))) as running:
        assert running.socket_folder != running.data
        assert run(running.url, "SELECT 1") == [(1,)]
        folder = running.socket_folder
    assert not list(folder.iterdir())
    folder.rmdir()


def test_it_ends_when_its_owner_is_killed(home: Home) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from console.embedded.home import Home; from console.embedded.postgres import EmbeddedPostgres\n"
        f"s = EmbeddedPostgres(Home(Path({str(home.root)!r})), durable=False)\n"
        "s.start(); print(s.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", script], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_running(pid)
        owner.kill()
    assert wait_for_end(pid, seconds=60)
