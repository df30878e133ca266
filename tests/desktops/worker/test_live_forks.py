"""Prefixes and forks on real desktops: unsaved work is on each copy, the copies part, and a kill leaves nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from desktops.protocol.attempt import StateSaved, TemplatePin
from desktops.worker.attest import attest, compare
from desktops.worker.computer import Computer
from desktops.worker.engine.base import Desk, DeskSpec
from desktops.worker.engine.choose import RUNC, open_engine
from desktops.worker.engine.runc.engine import RuncEngine
from desktops.worker.guest_client import Guest
from desktops.worker.ready import Ready
from desktops.worker.warm import Warmer
from runs.tasksets.load import load

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


def set_up(task: str) -> list[dict[str, Any]]:
    """As that one of our own tasks is."""
    return next(each.data["config"] for each in load().tasks if each.id == task)


def file(path: str, text: str) -> dict[str, Any]:
    return {"type": "upload_file", "parameters": {"files": [{"path": path, "text": text}]}}


def in_own_format(word: str) -> list[dict[str, Any]]:
    """How an office document is saved as what it was."""
    return [write(word), key("ctrl", "s"), wait("Confirm"), key("enter"), wait(seconds=3)]


def shell(command: str) -> list[str]:
    return ["sh", "-c", command]


# What is typed is its title too, and a file once it is sent.
PAGE = """<title>Page</title><form><input autofocus></form><script>
const input = document.querySelector("input");
input.oninput = () => { document.title = input.value; };
document.forms[0].onsubmit = (event) => {
  event.preventDefault();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([input.value]));
  link.download = "out";
  link.click();
};
</script>"""


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
    "files": App(
        [file("/home/user/Documents/draft", "text"), launch("pcmanfm", "/home/user/Documents")],
        [
            wait("Documents"),
            write("draft"),
            key("esc"),
            key("F2"),
            wait("Rename"),
            key("ctrl", "a"),
            write("before-"),
        ],
        lambda word: [write(f"{word}\n"), wait(seconds=3)],
        ["ls", "/home/user/Documents"],
        "basic",
    ),
    "calc": App(
        set_up("calc-total"),
        [wait("budget", 60), write("before-")],
        lambda word: in_own_format(f"{word}\n"),
        shell("unzip -p ~/Documents/budget.xlsx xl/sharedStrings.xml | grep -io 'before-[a-z]*'"),
        found=lambda word: f"Before-{word}",  # Calc begins a cell's words so
    ),
    "writer": App(
        set_up("writer-replace"),
        [wait("offer", 60), write("before-")],
        in_own_format,
        shell("unzip -p ~/Documents/offer.docx word/document.xml | grep -o 'before-[a-z]*'"),
    ),
    "gimp": App(
        set_up("gimp-grey"),
        [wait("boat", 60), key("t"), {"action": "click", "x": 650, "y": 500}, write("before-")],
        lambda word: [
            write(word),
            key("ctrl", "s"),
            wait("Save"),
            key("ctrl", "a"),
            write("/home/user/out.xcf"),
            wait(seconds=3),
            key("enter"),
            wait("out"),
        ],
        shell("grep -ao 'before-[a-z]*' ~/out.xcf | head -1"),
    ),
    "vlc": App(
        [launch("vlc", "--no-video-title-show")],
        [
            wait("VLC media player", 60),
            key("ctrl", "y"),
            wait("Save"),
            key("ctrl", "a"),
            write("/home/user/before-"),
        ],
        lambda word: [write(f"{word}.m3u"), wait(seconds=3), key("enter"), wait(seconds=3)],
        shell("ls ~ | grep -o 'before-[a-z]*'"),
    ),
    "chromium": App(
        [file("/home/user/page.html", PAGE), launch("google-chrome", "file:///home/user/page.html")],
        [wait("Page", 60), write("before-"), wait("before-")],
        lambda word: [write(word), wait(f"before-{word}"), key("enter"), wait(seconds=5)],
        shell("cat ~/Downloads/out*"),
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
        assert one(records, "computer_started").from_state == saved.name
        assert one(records, "forked").differences == []
        found.append(one(records, "verdict").evidence[0].found.strip())
    assert found == [app.found(word) for word in COPIES]


def test_of_attempts_that_begin_at_once_one_sets_up_and_the_others_start_from_that(
    table: Table, image: Callable[[str], str]
) -> None:
    editor = APPS["editor"]
    common = {
        "template": {"name": editor.template, "version": 1, "digest": image(editor.template)},
        "task": task(editor),
        "setup_state": "setup-1",
    }
    attempts = [table.made(**common, recipe=[{"action": "done"}]) for _ in range(3)]
    with ThreadPoolExecutor(3) as at_once:
        list(at_once.map(lambda attempt: attempt.run(), attempts))
    played = [table.records(number) for number in range(3)]
    assert [records[-1].ok for records in played] == [True] * 3
    assert sorted(one(records, "setup_done").from_state for records in played) == ["", "setup-1", "setup-1"]


def test_a_desktop_that_stood_ready_is_as_fresh_as_one_that_starts_now(
    table: Table, basic: dict[str, Any], tmp_path: Path
) -> None:
    template = TemplatePin.model_validate(basic)
    Warmer(table.engine, table.states, table.closing).keep_up([template.digest])
    table.ready = Ready(table.engine, table.states, tmp_path, most=1)
    try:
        with table.ready.take(template) as nothing:
            assert nothing is None
        table.ready.keep_up([template.digest])
        assert len(table.ready) == 1
        with table.ready.take(template) as stood:
            assert stood is not None
            stood.hand_over(datetime.now(UTC) + timedelta(minutes=5))
        with stood, Computer(table.engine, DeskSpec(str(uuid4()), template.digest)) as fresh:
            stood.wait_ready()
            attestation, screen = attest(fresh.guest, lambda data: sha256(data).hexdigest())
            assert compare(stood.guest, attestation, screen).differences == []
        table.ready.keep_up([template.digest])
        (stands,) = table.engine.list_owned()
        records = table.play(template=basic)
        assert one(records, "computer_started").computer == stands.computer
        assert records[-1].ok, records[-1].detail
    finally:
        table.ready.close()


# ── copies that are not like their parent ─────────────────────────────────────────────────────────────────────────


def a_strange_file(table: Table, folder: Path, saved: str) -> None:
    (folder / "desktops" / "states" / saved / "upper" / "home" / "user" / "strange").write_text(
        "from elsewhere"
    )


def a_program_that_ends(table: Table, folder: Path, saved: str) -> None:
    """In each copy, as soon as it is there."""
    assert isinstance(table.engine, RuncEngine)
    create = table.engine.create

    def without_its_terminal(spec: DeskSpec) -> Desk:
        desk = create(spec)
        guest = Guest(desk.connect)
        done = guest.run(["pkill", "-9", "xfce4-terminal"], timeout=30)
        guest.disconnect()
        assert done.returncode == 0, done.stderr
        return desk

    table.engine.create = without_its_terminal  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("changed", "differs"),
    [(a_strange_file, ["files"]), (a_program_that_ends, ["processes", "screen"])],
    ids=["files", "processes and screen"],
)
def test_a_copy_that_is_not_like_its_parent_has_no_verdict(
    table: Table,
    image: Callable[[str], str],
    tmp_path: Path,
    changed: Callable[[Table, Path, str], None],
    differs: list[str],
) -> None:
    app = APPS["terminal"]
    common = {"template": {"name": "basic", "version": 1, "digest": image("basic")}, "task": task(app)}
    prefix = table.play_prefix(**common, recipe=app.before)
    saved = one(prefix, "state_saved")
    changed(table, tmp_path / "worker", saved.name)
    recipe = [*app.before, *app.go_on("one"), {"action": "done"}]
    records = table.play(
        **common, fork=fork(saved), prefix_steps=len(app.before), recipe=recipe, max_steps=50
    )
    said = one(records, "forked").differences
    assert [words.partition(":")[0] for words in said] == differs
    ended = records[-1]
    assert (ended.ok, ended.invalid_reasons) == (False, ["fork_mismatch"])
    assert all(words in ended.detail for words in said)
    assert not {"step", "verdict"} & set(kinds(records))


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
