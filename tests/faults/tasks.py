"""Tasks whose course is known: how long each is played, and how it ends."""

from __future__ import annotations

from typing import Any

from runs.tasksets.load import load

HELLO = {
    "func": "exact_match",
    "result": {"type": "vm_command_line", "command": ["printf", "hello"]},
    "expected": {"type": "rule", "rules": {"expected": "hello"}},
}
OTHER = HELLO | {"expected": {"type": "rule", "rules": {"expected": "bye"}}}
SLOW_CHECKER = {
    **HELLO,
    "result": {"type": "vm_command_line", "command": ["sh", "-c", "sleep 4; printf hello"]},
}
# The desktop cannot be read any longer by the time the checker looks.
BROKEN_CHECKER = {**HELLO, "result": {"type": "vm_command_line", "command": ["no-such-program-at-all"]}}
BROKEN_SETUP = [{"type": "execute", "parameters": {"command": ["false"], "must_succeed": True}}]

DONE = {"action": "done"}
LONG_WAIT = {"action": "wait", "seconds": 60, "window": "no such window", "optional": True}
SECOND = {"action": "wait", "seconds": 1, "window": "no such window", "optional": True}


(CALC,) = (task.data for task in load().tasks if task.id == "calc-total")
TERMINAL = [{"type": "launch", "parameters": {"command": ["xfce4-terminal"]}}]
SAID = {
    "func": "exact_match",
    "result": {"type": "vm_command_line", "command": ["cat", "/home/user/said"]},
    "expected": {"type": "rule", "rules": {"expected": "hello"}},
}


def wait(window: str) -> dict[str, Any]:
    return {"action": "wait", "seconds": 60, "window": window}


def write(text: str) -> dict[str, Any]:
    return {"action": "type", "text": text}


# name → (setup, evaluator, recipe)
TASKS: dict[str, tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]] = {
    "solved": ([], HELLO, [DONE]),
    "unsolved": ([], OTHER, [DONE]),
    "judged": ([], SLOW_CHECKER, [DONE]),
    "unreadable": ([], BROKEN_CHECKER, [DONE]),
    "unprepared": (BROKEN_SETUP, HELLO, [DONE]),
    "endless": ([], HELLO, [LONG_WAIT] * 5),
    "steady": ([], HELLO, [SECOND] * 8 + [DONE]),
    "slow": ([], HELLO, [SECOND] * 30 + [DONE]),
    # The line that the first two actions begin, and the formula that the first three begin, are not finished by them.
    "said": (TERMINAL, SAID, [wait("Terminal"), write("printf hel"), write("lo > said\n"), SECOND, DONE]),
    "calc": (
        CALC["config"],
        CALC["evaluator"],
        [
            wait("budget"),
            write("\n\n\n\n\n\n\t"),
            write("=SUM(B2:"),
            write("B6)\n"),
            {"action": "key", "keys": ["ctrl", "s"]},
            wait("Confirm"),
            {"action": "key", "keys": ["enter"]},
            SECOND,
            SECOND,
            DONE,
        ],
    ),
}


def document(name: str) -> dict[str, Any]:
    setup, evaluator, _ = TASKS[name]
    return {"id": name, "instruction": f"Be {name}.", "config": setup, "evaluator": evaluator}
