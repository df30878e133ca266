"""Steps on the browser, by its debugging port inside the desktop. Only for addresses a desktop can reach."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from .registry import Stage, StepRefused, step

# OSWorld's tasks start the browser with 1337 and forward 9222 to it; either will do.
DEBUG_PORTS = (9222, 1337)

# Runs in the desktop: urllib answers without any package, and the port is open to nobody outside.
_ASK = """
import json, sys, urllib.request
method, path, ports = sys.argv[1], sys.argv[2], sys.argv[3:]
for port in ports:
    try:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
        with urllib.request.urlopen(request, timeout=10) as reply:
            sys.stdout.write(reply.read().decode())
            sys.exit(0)
    except OSError as error:
        why = str(error)
sys.exit("no browser answers: " + why)
"""


@step("chrome_open_tabs")
def chrome_open_tabs(stage: Stage, parameters: Mapping[str, Any]) -> None:
    """Open each address in a tab of its own."""
    for url in parameters["urls_to_open"]:
        if not is_local(url):
            raise StepRefused(f"desktops have no way to {url}")
        ask(stage, "PUT", "/json/new?" + quote(url, safe=""))
    stage.guest.settle(quiet_ms=300, timeout_ms=10000)


@step("chrome_close_tabs")
def chrome_close_tabs(stage: Stage, parameters: Mapping[str, Any]) -> None:
    """Close the tabs that show those addresses."""
    wanted = {url.rstrip("/") for url in parameters["urls_to_close"]}
    for tab in json.loads(ask(stage, "GET", "/json/list")):
        if tab.get("type") == "page" and str(tab.get("url")).rstrip("/") in wanted:
            ask(stage, "GET", "/json/close/" + str(tab["id"]))


def is_local(url: str) -> bool:
    """Whether a desktop without network can open it."""
    parts = urlsplit(url)
    return parts.scheme in ("file", "chrome", "about", "data") or parts.hostname in ("localhost", "127.0.0.1")


def ask(stage: Stage, method: str, path: str) -> str:
    """One request to the browser's debugging port; gives the reply's text. Raises StepRefused."""
    done = stage.guest.run(["python3", "-c", _ASK, method, path, *map(str, DEBUG_PORTS)], timeout=30)
    if done.returncode:
        raise StepRefused(done.stderr.strip()[-300:] or "the browser does not answer")
    return done.stdout
