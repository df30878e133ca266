"""What commands in the desktop print."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from desktops.worker.checkers.bench import Bench
from desktops.worker.setup.commands import as_command

from .registry import getter


@getter("vm_command_line")
def vm_command_line(bench: Bench, parameters: Mapping[str, Any]) -> str:
    """What the command printed; its exit status does not matter."""
    return bench.run(as_command(parameters["command"], bool(parameters.get("shell")))).stdout


@getter("vm_command_error")
def vm_command_error(bench: Bench, parameters: Mapping[str, Any]) -> str:
    """What the command printed as errors."""
    return bench.run(as_command(parameters["command"], bool(parameters.get("shell")))).stderr
