"""`make test`: the same preparation as `make up`, then every check, the tests, and what failed of the checks."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from .home import PROJECT, Home
from .processes import ending_with_parent
from .stage import Ended, Stage, end_on_signals
from .terminal import StepFailed, Terminal

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BIN = Path(sys.executable).parent
TYPED = ("console", "desktops", "runs", "evaluations", "bench")
LINT: list[tuple[str, list[str]]] = [
    ("ruff check", [f"{BIN}/ruff", "check", "."]),
    ("ruff format", [f"{BIN}/ruff", "format", "--check", "."]),
    ("import-linter", [f"{BIN}/lint-imports"]),
    ("mypy", [f"{BIN}/mypy", *TYPED]),
]
DATABASE_CHECKS: list[tuple[str, list[str]]] = [
    ("system check", [sys.executable, "manage.py", "check", "--fail-level", "WARNING"]),
    ("migrations", [sys.executable, "manage.py", "makemigrations", "--check", "--dry-run"]),
]


def lint() -> int:
    """The checks that need nothing running; the exit code."""
    return 1 if _run(LINT, dict(os.environ), Terminal()) else 0


def test(home: Home, arguments: list[str]) -> int:
    """All of it. `arguments` go to pytest. What failed is the last thing printed."""
    terminal = Terminal()
    home.create()
    stage = Stage(home, terminal, {**os.environ, "DESKYARD_TESTING": "1"})
    end_on_signals()
    try:
        with terminal.step("Database"):
            stage.database(durable=False)
        with terminal.step("Container engine"):
            stage.engine()
        for name in ("basic", "office"):
            with terminal.step(f"Desktop image {name}"):
                stage.image_now(name)
        with terminal.step("Browser"):
            _browser(terminal)
        failed = _run(LINT + DATABASE_CHECKS, stage.environment, terminal)
        if failed:
            terminal.line("The tests run all the same.")
        code = subprocess.call(
            ending_with_parent(signal.SIGTERM, [sys.executable, "-m", "pytest", *_shared(), *arguments]),
            cwd=PROJECT,
            env=stage.environment,
            stdin=subprocess.DEVNULL,
        )
        if failed:
            terminal.line(f"Failed before the tests, as said above them: {', '.join(failed)}.")
        return code or (1 if failed else 0)
    except StepFailed as failure:
        terminal.failed(failure)
        return 1
    except Ended as asked:
        terminal.line(f"Ending ({asked}) …")
        return 130
    finally:
        stage.close()


def _shared() -> list[str]:
    """Three processes share the tests where there are two processors: those of desktops and of services wait a good
    part of their time, each in one process (tests/conftest.py), and the third takes the rest meanwhile."""
    return ["-n", "3", "--dist", "loadscope"] if len(os.sched_getaffinity(0)) > 1 else []


def _run(checks: list[tuple[str, list[str]]], environment: dict[str, str], terminal: Terminal) -> list[str]:
    """Run each; what a failing one printed is shown. The names of those that failed."""
    failed = []
    for name, command in checks:
        done = subprocess.run(
            command,
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        terminal.line(f"  {'✗' if done.returncode else '✓'} {name}")
        if done.returncode:
            failed.append(name)
            terminal.line(done.stdout.rstrip())
    return failed


def _browser(terminal: Terminal) -> None:
    """A Chromium for the browser tests: the machine's, or Debian's by apt."""
    if any(shutil.which(name) for name in BROWSERS):
        return
    terminal.progress("apt-get install chromium")
    apt = [
        *([] if os.geteuid() == 0 else ["sudo"]),
        "env",
        "DEBIAN_FRONTEND=noninteractive",
        "apt-get",
        "-qy",
    ]
    for command in (["update"], ["--no-install-recommends", "install", "chromium", "fonts-dejavu-core"]):
        done = subprocess.run(
            [*apt, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise StepFailed(
            "Installing Chromium for the browser tests",
            done.stderr.strip()[-300:],
            "Install chromium yourself and run make test again.",
        )
