"""The data folder and what a person reads."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from console.embedded.home import PROJECT, AlreadyOwned, Home, is_owned, owned
from console.embedded.terminal import StepFailed, Terminal


def test_keys_are_made_once_and_for_the_owners_eyes_only(tmp_path: Path) -> None:
    home = Home(tmp_path)
    keys = home.keys()
    assert sorted(keys) == ["DESKYARD_SECRET_KEYS", "DESKYARD_SIGNING_KEY", "DJANGO_SECRET_KEY"]
    assert home.keys() == keys
    assert Home(tmp_path / "other").root != home.root
    assert (tmp_path / "secrets.json").stat().st_mode & 0o777 == 0o600


def test_two_homes_have_different_keys(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert not set(Home(tmp_path / "a").keys().values()) & set(Home(tmp_path / "b").keys().values())


def test_a_relative_home_lies_in_the_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DESKYARD_HOME", "elsewhere")
    assert Home.from_environment().root == PROJECT / "elsewhere"


def test_a_second_owner_is_told_who_the_first_is(tmp_path: Path) -> None:
    lock = tmp_path / "up.lock"
    with owned(lock, {"pid": os.getpid(), "url": "http://127.0.0.1:8000"}):
        with pytest.raises(AlreadyOwned) as refused, owned(lock, {}):
            pass
        assert is_owned(lock)
        assert refused.value.owner == {"pid": os.getpid(), "url": "http://127.0.0.1:8000"}
    assert not is_owned(lock)
    with owned(lock, {}):
        pass


def test_a_step_says_its_name_and_its_time() -> None:
    out = io.StringIO()
    with Terminal(out).step("Database"):
        pass
    assert out.getvalue() == "  ✓ Database (0.0 s)\n"


def test_a_failure_says_which_step_why_and_what_to_do() -> None:
    out = io.StringIO()
    Terminal(out).failed(StepFailed("Taking the port", "8000 is in use", "Choose another."))
    assert out.getvalue().split("\n")[1:4] == [
        "Taking the port failed.",
        "  Why:        8000 is in use",
        "  What to do: Choose another.",
    ]


def test_a_terminal_that_was_closed_stops_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as out:
        terminal = Terminal(out)
        terminal.line("nobody reads this")
        terminal.line("nor this")
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)


def test_a_terminal_that_was_closed_is_noticed_with_and_without_writing_to_it() -> None:
    for writes in (False, True):
        master, slave = os.openpty()
        with os.fdopen(slave, "w") as out:
            terminal = Terminal(out)
            assert not terminal.was_closed()
            os.close(master)
            if writes:
                terminal.line("nobody reads this")
            assert terminal.was_closed()
            os.dup2(os.open(os.devnull, os.O_WRONLY), slave)


def test_a_console_without_keys_in_its_environment_makes_its_own_and_keeps_them(tmp_path: Path) -> None:
    home = tmp_path / "new" / "home"
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DJANGO_SECRET_KEY", "DESKYARD_SECRET_KEYS", "DESKYARD_SIGNING_KEY")
    }
    show = "from console import settings as s; print(s.SECRET_KEY, *s.DESKYARD_SECRET_KEYS, s.DESKYARD_SIGNING_KEY)"

    def keys() -> list[str]:
        command = [sys.executable, "-c", show]
        done = subprocess.run(
            command,
            cwd=PROJECT,
            env={**environment, "DESKYARD_HOME": str(home), "DATABASE_URL": "postgresql:///none"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    assert keys() == keys() == list(Home(home).keys().values())


def test_a_data_folder_that_cannot_be_written_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for verb in ("up", "worker"):
        said = _embedded(verb, DESKYARD_HOME=str(tmp_path / "file" / "home"))
        assert said.returncode == 1
        assert "cannot write its data folder" in said.stderr
        assert "DESKYARD_HOME" in said.stderr
        assert "Traceback" not in said.stderr


@pytest.mark.parametrize("port", ["²", "٣", "abc", "0", "65536"])
def test_a_port_that_is_none_is_told(port: str, tmp_path: Path) -> None:
    said = _embedded("up", DESKYARD_HOME=str(tmp_path), DESKYARD_PORT=port)
    assert said.returncode == 2
    assert "must be a port number" in said.stderr


def _embedded(verb: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "console.embedded", verb]
    environment = {**os.environ, **settings}
    return subprocess.run(
        command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
