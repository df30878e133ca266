"""What a worker is told from outside: environment variables, each with a command-line flag."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .engine.base import DISK_MB

SMALLEST_DISK_MB = 64


class ConfigError(Exception):
    """A setting is missing or cannot be used; the message names the variable and says what to do."""


@dataclass(frozen=True, slots=True)
class Config:
    """`engine` is a Docker-compatible socket address, or one of process, fake and auto.

    `slots` is how many desktops there may be at once; None leaves that to the engine, which knows the machine.
    """

    url: str
    token: str
    name: str
    home: Path
    engine: str
    slots: int | None
    disk_mb: int = DISK_MB
    log_level: str = "INFO"
    warm: bool = (
        True  # save a desktop of each image in use, and start the others from it, where that can be done
    )
    ready: int = (
        2  # desktops that stand ready of what is asked for lately, where they can be started from a saved one
    )
    states_mb: int | None = None  # of disk, for all saved desktops together; None: a part of it

    @property
    def scratch(self) -> Path:
        """Where running attempts keep their files; whatever an earlier process left there goes at the start."""
        return self.home / "attempts"

    @property
    def websocket_url(self) -> str:
        """`http://console:8000` → `ws://console:8000/ws/worker`."""
        scheme, rest = self.url.split("://", 1)
        return f"{'wss' if scheme == 'https' else 'ws'}://{rest}/ws/worker"


def load(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Config:
    """Flags win over variables, variables over defaults. Raises ConfigError, or SystemExit for an unknown
    flag.
    """
    flags = _parser().parse_args(list(arguments))

    def setting(name: str, default: str = "") -> str:
        given = getattr(flags, name)
        return str(given) if given is not None else environ.get(_variable(name), "") or default

    url = setting("url").rstrip("/")
    if not url.startswith(("http://", "https://")) or url.endswith("://"):
        raise ConfigError(
            "DESKYARD_URL must be the console's address, for example https://deskyard.example:8000"
        )
    home = setting("worker_home") or str(Path(environ.get("DESKYARD_HOME", "") or ".deskyard") / "worker")
    return Config(
        url=url,
        token=_token(setting("worker_token"), setting("worker_token_file")),
        name=(setting("worker_name") or socket.gethostname() or "worker")[:100],
        home=Path(home).absolute(),
        engine=setting("engine", "auto"),
        slots=_slots(setting("slots")),
        disk_mb=_disk_mb(setting("disk_mb", str(DISK_MB))),
        log_level=setting("log_level", "INFO").upper(),
        warm=setting("warm", "1") not in ("0", "no"),
        ready=_ready(setting("ready", "2")),
        states_mb=_states_mb(setting("states_mb")),
    )


def _variable(name: str) -> str:
    return f"DESKYARD_{name.upper()}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="deskyard-worker", description="Own this machine's desktops and play what the console offers."
    )
    add = parser.add_argument
    add("--url", help="the console's address, http(s)://host:port (DESKYARD_URL)")
    add("--token", dest="worker_token", help="a token with workers:connect (DESKYARD_WORKER_TOKEN)")
    add("--token-file", dest="worker_token_file", help="a file with it (DESKYARD_WORKER_TOKEN_FILE)")
    add("--name", dest="worker_name", help="shown on the Workers page (DESKYARD_WORKER_NAME)")
    add("--home", dest="worker_home", help="folder of the spool (DESKYARD_WORKER_HOME)")
    add("--engine", help="socket address, process, fake or auto (DESKYARD_ENGINE)")
    add("--slots", type=int, help="desktops at once (DESKYARD_SLOTS)")
    add("--disk-mb", type=int, help="what a desktop may write, 0 for any amount (DESKYARD_DISK_MB)")
    add("--warm", choices=("1", "0"), help="start desktops from a saved one: 1 or 0 (DESKYARD_WARM)")
    add("--ready", help="desktops kept ready for who asks next; 0 keeps none (DESKYARD_READY)")
    add("--states-mb", type=int, help="disk for saved desktops, in MB; 0 saves none (DESKYARD_STATES_MB)")
    add("--log-level", help="DEBUG, INFO, WARNING or ERROR (DESKYARD_LOG_LEVEL)")
    return parser


def _token(token: str, file: str) -> str:
    if not token and file:
        try:
            token = Path(file).read_text()
        except OSError as error:
            raise ConfigError(f"DESKYARD_WORKER_TOKEN_FILE cannot be read: {error}") from error
    token = token.strip()
    if not token:
        raise ConfigError(
            "set DESKYARD_WORKER_TOKEN or DESKYARD_WORKER_TOKEN_FILE; the Workers page makes one"
        )
    if not token.isascii() or not token.isprintable():
        raise ConfigError("DESKYARD_WORKER_TOKEN holds characters that a token never has")
    return token


def _slots(text: str) -> int | None:
    if not text:
        return None
    if not text.isdigit() or not 1 <= int(text) <= 256:
        raise ConfigError("DESKYARD_SLOTS must be a whole number from 1 to 256")
    return int(text)


def _ready(text: str) -> int:
    if not text.isdigit() or int(text) > 256:
        raise ConfigError("DESKYARD_READY must be a whole number from 0 to 256; 0 keeps no desktop ready")
    return int(text)


def _states_mb(text: str) -> int | None:
    if not text:
        return None
    if not text.isdigit():
        raise ConfigError("DESKYARD_STATES_MB must be a whole number of megabytes; 0 saves no desktops")
    return int(text)


def _disk_mb(text: str) -> int:
    if not text.isdigit() or 0 < int(text) < SMALLEST_DISK_MB:
        raise ConfigError(
            f"DESKYARD_DISK_MB must be a whole number of {SMALLEST_DISK_MB} or more, or 0 for no limit"
        )
    return int(text)
