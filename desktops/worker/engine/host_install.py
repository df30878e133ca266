"""Lay a template onto this machine itself, for the process engine: packages, programs, user, pristine home."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from .base import EngineError

Progress = Callable[[str], None]
ROOT = Path("/opt/deskyard")
PRISTINE = ROOT / "pristine"
INSTALLED = ROOT / "installed.json"
ACCOUNT = "user"
MARK = "Deskyard desktop"  # in the account's GECOS field: only an account that we made is ever used
HOME = Path("/home") / ACCOUNT
RUNTIME = Path("/run/user/1000")  # where the session bus is expected, whatever the account's number
QUIET_SECONDS = 5.0


def account() -> pwd.struct_passwd | None:
    """Our account, if it is there. Raises EngineError when somebody else's has that name."""
    try:
        found = pwd.getpwnam(ACCOUNT)
    except KeyError:
        return None
    if not found.pw_gecos.startswith(MARK):
        raise EngineError(f"this machine has an account named {ACCOUNT} that Deskyard did not make")
    return found


def installed() -> dict[str, str]:
    """Recipe digest of each template that is laid here."""
    try:
        return dict(json.loads(INSTALLED.read_text()))
    except FileNotFoundError:
        return {}


def lay(
    name: str, digest: str, progress: Progress, when_free: Callable[[], AbstractContextManager[None]]
) -> None:
    """Install a template. What a live desktop uses is only touched inside `when_free`, when there is none.

    Raises EngineError with the step that failed.
    """
    if os.geteuid() != 0:
        raise EngineError("only root can install a template on this machine")
    _packages(name, progress)
    with when_free():
        progress(f"template {name}: programs and user")
        _programs()
        user = _make_account()
        _pristine(name, user, progress)
        names = installed() | {name: digest}
        temporary = INSTALLED.with_suffix(".new")
        temporary.write_text(json.dumps(names))
        temporary.rename(INSTALLED)


def _packages(name: str, progress: Progress) -> None:
    from desktops.images import build

    missing = [package for package in build.packages(name) if not _has_package(package)]
    if not missing:
        return
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as listing:
        listing.write("\n".join(missing) + "\n")
        listing.flush()
        progress(f"template {name}: installing {len(missing)} Debian packages and what they need")
        command = ["sh", str(build.HERE / "install.sh"), listing.name]
        _run(command, f"template {name}", progress, {"KEEP_APT": "1"})


def _has_package(package: str) -> bool:
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status}", package],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() == "installed"


def _programs() -> None:
    """The guest agent, its Python packages and the programs of every template."""
    from desktops.images.build import GUEST, HERE, TEMPLATES, wheels

    _replace(GUEST, ROOT / "guest")
    (ROOT / "guest" / "session.sh").chmod(0o755)
    for template in TEMPLATES:
        folder = ROOT / "bin" if template == "basic" else ROOT / f"bin-{template}"
        _replace(HERE / template / "bin", folder)
        for program in folder.iterdir():
            program.chmod(0o755)
    (ROOT / "build").mkdir(exist_ok=True)
    for path in (*HERE.glob("*/*.py"), *HERE.glob("*/*.flags")):
        shutil.copy(path, ROOT / "build" / path.name)
    site = ROOT / "site"
    shutil.rmtree(site, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="deskyard-wheels-") as folder_name:
        for wheel in wheels(Path(folder_name)):
            command = ["/usr/bin/python3", "-m", "zipfile", "-e", str(wheel), str(site)]
            subprocess.run(command, check=True, capture_output=True)
    path_file = Path("/usr/local/lib/python3.11/dist-packages/deskyard.pth")
    path_file.parent.mkdir(parents=True, exist_ok=True)
    path_file.write_text(f"{site}\n")


def _replace(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))


def _make_account() -> pwd.struct_passwd:
    user = account()
    if user is None:
        number = ["--uid", "1000"] if not _is_taken(1000) else []
        command = ["useradd", *number, "--user-group", "--create-home", "--home-dir", str(HOME)]
        command += ["--shell", "/bin/bash", "--comment", MARK, ACCOUNT]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise EngineError(f"the account {ACCOUNT} could not be made: {done.stderr.strip()}")
        user = pwd.getpwnam(ACCOUNT)
    return user


def _is_taken(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _pristine(name: str, user: pwd.struct_passwd, progress: Progress) -> None:
    """Make the home folder as the template's image has it, in place, and keep a copy."""
    from desktops.images.build import HERE, family

    shutil.rmtree(HOME, ignore_errors=True)
    shutil.copytree("/etc/skel", HOME)
    for template in family(name):
        shutil.copytree(HERE / template / "home", HOME, dirs_exist_ok=True)
        progress(f"template {name}: preparing {template}")
        environment = {"HOME_DIR": str(HOME), "DESK_UID": str(user.pw_uid), "DESK_GID": str(user.pw_gid)}
        _run(["sh", str(HERE / template / "prepare.sh")], f"template {name}", progress, environment)
    PRISTINE.mkdir(parents=True, exist_ok=True)
    target = PRISTINE / name
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", str(HOME), str(target)], check=True)


def _run(command: list[str], what: str, progress: Progress, environment: dict[str, str]) -> None:
    last, tail = time.monotonic(), ""
    with subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        for line in process.stdout or ():
            tail = f"{tail}{line}"[-1500:]
            if time.monotonic() - last > QUIET_SECONDS and line.strip():
                progress(f"{what}: {line.strip()[:160]}")
                last = time.monotonic()
    if process.returncode:
        raise EngineError(f"{what}: {' '.join(command[:2])} failed with {process.returncode}: {tail.strip()}")
