"""python -m console.embedded up | down | test | lint | image NAME"""

from __future__ import annotations

import argparse
import os
import sys

from .down import down
from .home import Home
from .stage import build_image, end_with_parent
from .testing import lint, test
from .up import up


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m console.embedded")
    verbs = parser.add_subparsers(dest="verb", required=True)
    starting = verbs.add_parser("up", help="start everything and stay")
    starting.add_argument("--end-with-parent", action="store_true", help="end when the parent process does")
    verbs.add_parser("down", help="end what runs in this data folder")
    testing = verbs.add_parser("test", help="prepare, check and test; further arguments go to pytest")
    testing.add_argument("--end-with-parent", action="store_true", help="end when the parent process does")
    verbs.add_parser("lint", help="the checks that need nothing running")
    imaging = verbs.add_parser("image", help="build a desktop image where it is missing")
    imaging.add_argument("name")
    options, rest = parser.parse_known_args()
    if rest and options.verb != "test":
        parser.error(f"unknown: {' '.join(rest)}")

    home = Home.from_environment()
    if getattr(options, "end_with_parent", False):
        end_with_parent()
    match options.verb:
        case "up":
            return up(home, _port(parser))
        case "down":
            return down(home)
        case "test":
            return test(home, rest)
        case "lint":
            return lint()
        case _:
            build_image(options.name, os.environ["DESKYARD_ENGINE"], lambda text: print(text, flush=True))
            return 0


def _port(parser: argparse.ArgumentParser) -> int:
    text = os.environ.get("DESKYARD_PORT") or "8000"
    if not text.isdigit() or not 1 <= int(text) <= 65535:
        parser.error(f"DESKYARD_PORT is {text!r}; it must be a port number")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
