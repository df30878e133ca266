"""Orders for attempts on fake desktops."""

from __future__ import annotations

from typing import Any

from desktops.worker.testing_desktop import IMAGE, TYPED

TEMPLATE = {"name": IMAGE.name, "version": IMAGE.version, "digest": IMAGE.digest}

TASK = {
    "id": "type-hello",
    "instruction": "Type hello.",
    "config": [],
    "evaluator": {
        "func": "exact_match",
        "result": {"type": "vm_command_line", "command": ["cat", TYPED]},
        "expected": {"type": "rule", "rules": {"expected": "hello"}},
    },
}


def order(*actions: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "attempt_id": "at-1",
        "run_id": "r-1",
        "try_number": 1,
        "template": TEMPLATE,
        "task": TASK,
        "policy": "recipe",
        "recipe": list(actions) or [{"action": "type", "text": "hello"}, {"action": "done"}],
        "max_steps": 15,
    } | changes


def prefix_order(*actions: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "prefix_id": "p-1",
        "run_id": "r-1",
        "try_number": 1,
        "template": TEMPLATE,
        "task": TASK,
        "recipe": list(actions) or [{"action": "type", "text": "hel"}],
        "state": "prefix-1",
    } | changes


def hold_order(**changes: Any) -> dict[str, Any]:
    return {"hold_id": "h-1", "template": TEMPLATE} | changes
