"""A virtual environment of its own for a peer, made once for each state of its lock file."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path


def python_of(home: Path, lock: Path) -> Path:
    """The Python of the environment with exactly what `lock` pins; made when it is not there.

    pip runs with this machine's own configuration. Raises CalledProcessError with pip's words in its output.
    """
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:16]
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        folder = home / digest
        python, whole = folder / "bin" / "python", folder / "whole"
        if not whole.exists():
            for old in home.iterdir():
                if old.is_dir():
                    shutil.rmtree(old)
            _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
            options = ["--quiet", "--no-input", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
            _run([*pip, "install", *options, "-r", str(lock)])
            whole.touch()
    return python


def _run(command: list[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stdout, done.stderr)  # pytest shows it with the failure
        done.check_returncode()
