"""python -m console.embedded up | worker | down | test | lint | is-up | play | image"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

from .api import Api, ApiError, answers
from .down import down, running_at
from .home import Home
from .parent import end_with_parent
from .play import TASK_SET, play_all
from .stage import build_image
from .terminal import Terminal
from .testing import lint, test
from .up import up
from .worker_host import work


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m console.embedded")
    verbs = parser.add_subparsers(dest="verb", required=True)
    starting = verbs.add_parser("up", help="start everything and stay")
    starting.add_argument("--end-with-parent", action="store_true", help="end when the parent process does")
    starting.add_argument(
        "--began", type=float, default=time.time(), help="when preparing began, as a Unix time"
    )
    working = verbs.add_parser("worker", help="a worker host for a console that runs elsewhere")
    working.add_argument("--end-with-parent", action="store_true", help="end when the parent process does")
    verbs.add_parser("down", help="end what runs in this data folder")
    testing = verbs.add_parser("test", help="prepare, check and test; further arguments go to pytest")
    testing.add_argument("--end-with-parent", action="store_true", help="end when the parent process does")
    verbs.add_parser("lint", help="the checks that need nothing running")
    verbs.add_parser("is-up", help="exit code 0 when the console of this data folder answers")
    playing = verbs.add_parser("play", help="play every task of a set on the console that is up")
    playing.add_argument("--template", default="office")
    playing.add_argument("--task-set", default=TASK_SET)
    imaging = verbs.add_parser("image", help="build a desktop image where it is missing")
    imaging.add_argument("name")
    imaging.add_argument("result", type=Path, help="file that gets its digest")
    options, rest = parser.parse_known_args()
    if rest and options.verb != "test":
        parser.error(f"unknown: {' '.join(rest)}")

    home = Home.from_environment()
    if options.verb in ("up", "worker", "test"):
        try:
            home.create()
        except OSError as error:
            parser.exit(
                1,
                f"Deskyard cannot write its data folder {home.root}: {error.strerror or error}.\n"
                "  Make it writable, free some space, or set DESKYARD_HOME to another folder.\n",
            )
    if getattr(options, "end_with_parent", False):
        end_with_parent()
    match options.verb:
        case "up":
            return up(home, _port(parser), options.began)
        case "worker":
            return work(home)
        case "down":
            return down(home)
        case "test":
            return test(home, rest)
        case "lint":
            return lint()
        case "is-up":
            return 0 if (url := running_at(home)) and answers(url) else 1
        case "play":
            return _play(home, options.template, options.task_set)
        case _:
            engine = os.environ["DESKYARD_ENGINE"]
            build_image(options.name, engine, options.result, lambda text: print(text, flush=True))
            return 0


def _play(home: Home, template: str, task_set: str) -> int:
    terminal = Terminal()
    url = running_at(home)
    if url is None or not home.demo.exists():
        terminal.line("Nothing is up. Start it with: make up")
        return 1
    api = Api(url, json.loads(home.demo.read_text())["token"])
    try:
        return play_all(api, template, task_set, terminal, time.sleep)
    except ApiError as error:
        terminal.line(str(error))
        return 1


def _port(parser: argparse.ArgumentParser) -> int:
    text = os.environ.get("DESKYARD_PORT") or "8000"
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 65535:
        parser.error(f"DESKYARD_PORT is {text!r}; it must be a port number")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
