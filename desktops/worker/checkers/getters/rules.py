"""Values that come with the task: rule, bundled_file."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from desktops.worker.checkers.bench import Bench

from .registry import getter


@getter("rule")
def rule(bench: Bench, parameters: Mapping[str, Any]) -> Any:
    """The rules as the task states them."""
    return parameters["rules"]


@getter("bundled_file")
def bundled_file(bench: Bench, parameters: Mapping[str, Any]) -> Path:
    """A file of the task set: {dest, text | content_base64}. Gives its path on the worker."""
    if "text" in parameters:
        data = str(parameters["text"]).encode()
    else:
        data = base64.b64decode(parameters["content_base64"], validate=True)
    # A prefix of its own: the desktop's file of the same name must not be overwritten by it.
    return bench.keep("expected-" + str(parameters["dest"]), data)
