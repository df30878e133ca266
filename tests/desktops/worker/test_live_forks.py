"""Prefixes and forks on real desktops: unsaved work is on each copy, the copies part, and a kill leaves nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from desktops.protocol.attempt import StateSaved
from desktops.worker.engine.choose import RUNC, open_engine

from .table import Table, kinds, one

pytestmark = pytest.mark.desktop

COPIES = ("one", "two", "three", "four")


def key(*keys: str, times: int = 1) -> dict[str, Any]:
    return {"action": "key", "keys": list(keys), "times": times}


def wait(window: str = "", seconds: float = 30) -> dict[str, Any]:
    return {"action": "wait", "seconds": seconds, "window": window}


def write(text: str) -> dict[str, Any]:
    return {"action": "type", "text": text}


def launch(*command: str) -> dict[str, Any]:
    return {"type": "launch", "parameters": {"command": list(command)}}


@dataclass(frozen=True)
class App:
    """`before` ends with work that is not saved; `go_on(word)` adds to it and saves; `read` prints what was saved."""

    setup: list[dict[str, Any]]
    before: list[dict[str, Any]]
    go_on: Callable[[str], list[dict[str, Any]]]
    read: list[str]
    template: str = "office"
    found: Callable[[str], str] = field(default=lambda word: f"before-{word}")


APPS = {
    "terminal": App(
        [launch("xfce4-terminal")],
        [wait("Terminal"), write("printf before-")],
        lambda word: [write(f"{word} > out\n")],
        ["cat", "/home/user/out"],
        "basic",
    ),
    "editor": App(
        [launch("mousepad")],
        [wait("Mousepad"), write("before-")],
        lambda word: [
            write(word),
            key("ctrl", "s"),
            wait("Save As"),
            write("/home/user/out"),
            wait(seconds=3),  # the dialog takes no Return while it looks for names
            key("enter"),
            wait("out", 10),
        ],
        ["cat", "/home/user/out"],
        "basic",
    ),
}


@pytest.fixture
def table(engine_address: str, tmp_path: Path) -> Iterator[Table]:
    if not engine_address.startswith(RUNC):
        pytest.skip("live desktops cannot be saved on this machine")
    engine = open_engine(engine_address, tmp_path / "worker")
    made = Table(tmp_path, engine)
    yield made
    made.spool.close()
    report = engine.sweep([])
    assert (report.removed, report.left, report.problems) == ([], [], [])
    engine.close()


@pytest.mark.parametrize("name", APPS)
def test_unsaved_work_is_on_each_copy_and_then_they_part(
    name: str, table: Table, image: Callable[[str], str]
) -> None:
    app = APPS[name]
    common = {
        "template": {"name": app.template, "version": 1, "digest": image(app.template)},
        "task": task(app),
    }
    # The editor's desktop comes from one whose setup was saved: its copies are copies of a copy.
    start = {"setup_state": "setup-1"} if name == "editor" else {}
    if start:
        table.play_prefix(**common, **start, recipe=app.before, state="prefix-0")
    prefix = table.play_prefix(**common, **start, recipe=app.before)
    assert prefix[-1].ok, prefix[-1].detail
    saved = one(prefix, "state_saved")
    assert saved.parent == start.get("setup_state", "")
    attempts = [
        table.made(
            **common,
            fork=fork(saved),
            prefix_steps=len(app.before),
            recipe=[*app.before, *app.go_on(word), {"action": "done"}],
            max_steps=50,
        )
        for word in COPIES
    ]
    with ThreadPoolExecutor(2) as two_at_a_time:
        list(two_at_a_time.map(lambda attempt: attempt.run(), attempts))
    found = []
    for number in range(-len(COPIES), 0):
        records = table.records(number)
        assert one(records, "forked").differences == []
        found.append(one(records, "verdict").evidence[0].found.strip())
    assert found == [app.found(word) for word in COPIES]


# ── ends in the middle ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def basic(image: Callable[[str], str]) -> dict[str, Any]:
    return {"name": "basic", "version": 1, "digest": image("basic")}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The worker's folder on a disk that a saved desktop does not fit on."""
    folder = tmp_path / "worker"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "small", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_on_a_disk_that_fills_while_a_desktop_is_saved_attempts_go_on_and_nothing_stays(
    small_disk: Path, table: Table, basic: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desktops.worker.states.LEAST_FREE", 0)
    monkeypatch.setattr("desktops.worker.states.LEAST_EXPECTED", 0)
    ended = table.play_prefix(template=basic)[-1]
    assert (ended.ok, ended.invalid_reasons) == (False, ["worker_fault"])
    records = table.play(template=basic, setup_state="setup-1")
    assert "state_saved" not in kinds(records)
    assert records[-1].ok, records[-1].detail
    assert table.states.held() == []
    assert [path.name for path in (small_disk / "desktops" / "states").iterdir()] == []


def task(app: App) -> dict[str, Any]:
    return {
        "id": "fork",
        "instruction": "Go on.",
        "config": app.setup,
        "evaluator": {
            "func": "exact_match",
            "result": {"type": "vm_command_line", "command": app.read},
            "expected": {"type": "rule", "rules": {"expected": "before-one"}},
        },
    }


def fork(saved: StateSaved) -> dict[str, Any]:
    assert saved.attestation is not None
    parent = saved.attestation.model_dump()
    return {"state": saved.name, "parent": parent, "screenshot": parent["screenshot"]}
