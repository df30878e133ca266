"""`python -m bench`, also `make bench`: prints a table of figures against their peers.

    python -m bench [--json FILE] [--only PART …]

The exit status is 0 whatever the figures are, and also when nothing could be measured: the output says why.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from desktops.images.build import BuildFailed
from desktops.worker.computer import StartFailed
from desktops.worker.engine.base import EngineError
from desktops.worker.engine.provision import ProvisionError
from desktops.worker.guest_client import GuestError

from .machine import look
from .site import Site, site
from .table import Missing, Row, document, table

# Module → what it measures. The most telling first.
PARTS = {
    "overhead": "overhead of one attempt",
    "screen": "action + screenshot",
    "start": "time to a ready desktop",
    "memory": "memory",
}
BROKEN = (EngineError, StartFailed, GuestError, OSError)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    began = time.monotonic()
    conditions = look()
    print(conditions.sentence(), flush=True)
    parts = [name for name in PARTS if not options.only or name in options.only]
    try:
        with (
            tempfile.TemporaryDirectory(prefix="deskyard-bench-") as folder,
            site(_home(), Path(folder), _progress) as place,
        ):
            print(f"Engine {place.engine.probe().name} at {place.address}, image {place.image.digest[:19]}.")
            rows = [row for name in parts for row in _measure(name, place)]
    except (EngineError, ProvisionError, BuildFailed) as error:
        rows = [Missing(PARTS[name], str(error)) for name in parts]
    after = look()
    print(f"\n{table(rows)}\n\nAfterwards: {after.sentence()} It took {time.monotonic() - began:.0f} s.")
    if options.json:
        facts = {"before": conditions.document(), "after": after.document()}
        options.json.write_text(document(rows, facts) + "\n")
    return 0


def _measure(name: str, place: Site) -> list[Row]:
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
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)  # so that the desktop it measures goes with it
    raise SystemExit(main())
