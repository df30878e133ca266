"""`python -m bench`, also `make bench`: prints a table of figures against their peers.

    python -m bench [--json FILE] [--only PART …] [--skip PART …]

The exit status is 0 whatever the figures are, and also when nothing could be measured: the output says why.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from console.embedded.postgres import PostgresFailed
from desktops.images.build import BuildFailed
from desktops.worker.computer import StartFailed
from desktops.worker.engine.base import EngineError
from desktops.worker.engine.provision import ProvisionError
from desktops.worker.guest_client import GuestError

from .console import Console, ConsoleFailed, console
from .machine import look
from .site import Site, site
from .table import Missing, Row, document, table
from .whole import Whole, whole

# Module → what it measures, on a desktop and on a console. The most telling first.
ON_DESKTOPS = {
    "overhead": "overhead of one attempt",
    "screen": "action + screenshot",
    "start": "time to a ready desktop",
    "forks": "live forks",
    "memory": "memory",
}
ON_CONSOLE = {
    "intake": "events taken in",
    "large": "the largest run",
}
ON_BOTH = {
    "rounds": "a run of five rounds",
    "cancel": "cancel of a run with eight desktops",
    "loss": "notice of a lost worker",
}
PARTS = ON_DESKTOPS | ON_CONSOLE | ON_BOTH
BROKEN = (EngineError, StartFailed, GuestError, OSError, TimeoutError, subprocess.CalledProcessError)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    began = time.monotonic()
    conditions = look()
    print(conditions.sentence(), flush=True)
    parts = [name for name in PARTS if name not in options.skip and name in (options.only or PARTS)]
    with tempfile.TemporaryDirectory(prefix="deskyard-bench-") as folder:
        rows = _on_desktops([name for name in parts if name in ON_DESKTOPS], Path(folder))
        rows += _on_console([name for name in parts if name in ON_CONSOLE], Path(folder))
        rows += _on_both([name for name in parts if name in ON_BOTH], Path(folder))
    after = look()
    print(f"\n{table(rows)}\n\nAfterwards: {after.sentence()} It took {time.monotonic() - began:.0f} s.")
    if options.json:
        facts = {"before": conditions.document(), "after": after.document()}
        options.json.write_text(document(rows, facts) + "\n")
    return 0


def _on_desktops(parts: Sequence[str], folder: Path) -> list[Row]:
    if not parts:
        return []
    try:
        with site(_home(), folder, _progress) as place:
            print(f"Engine {place.engine.probe().name} at {place.address}, image {place.image.digest[:19]}.")
            return [row for name in parts for row in _measure(name, place)]
    except (EngineError, ProvisionError, BuildFailed) as error:
        return [Missing(PARTS[name], str(error)) for name in parts]


def _on_console(parts: Sequence[str], folder: Path) -> list[Row]:
    if not parts:
        return []
    try:
        with console(folder) as place:
            return [row for name in parts for row in _measure(name, place)]
    except (ConsoleFailed, PostgresFailed) as error:
        return [Missing(PARTS[name], str(error)) for name in parts]


def _on_both(parts: Sequence[str], folder: Path) -> list[Row]:
    if not parts:
        return []
    try:
        with (
            site(_home(), folder, _progress) as desktops,
            console(folder) as served,
            whole(desktops, served) as place,
        ):
            return [row for name in parts for row in _measure(name, place)]
    except (EngineError, ProvisionError, BuildFailed, ConsoleFailed, PostgresFailed) as error:
        return [Missing(PARTS[name], str(error)) for name in parts]


def _measure(name: str, place: Site | Console | Whole) -> list[Row]:
    _progress(f"measuring: {PARTS[name]}")
    try:
        rows: list[Row] = importlib.import_module(f"bench.{name}").measure(place)
    except BROKEN as error:
        return [Missing(PARTS[name], str(error) or type(error).__name__)]
    return rows


def _home() -> Path:
    from console.embedded.home import Home

    return Home.from_environment().root


def _progress(text: str) -> None:
    print(f"  … {text}", file=sys.stderr, flush=True)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench", description="Figures against their peers, as ratios in one run."
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every measurement there as well")
    parser.add_argument(
        "--only", action="append", choices=PARTS, help="measure only this part; may be repeated"
    )
    parser.add_argument(
        "--skip",
        action="append",
        default=[],
        choices=PARTS,
        help="leave this part out; making the largest run takes minutes",
    )
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)  # so that the desktop it measures goes with it
    raise SystemExit(main())
