"""Import of OSWorld: each file becomes a task, or is listed with the reason why it cannot run here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from console.redaction import holds_secret
from desktops.worker.checkers.evaluate import unsupported
from desktops.worker.setup import STEPS
from desktops.worker.setup.browser import is_local
from desktops.worker.setup.commands import as_command
from desktops.worker.task import BadTask, SetupStep, Source, Task, canonical_json, clean, digest, parse

from .templates import missing_apps, templates_for

ReasonCode = Literal[
    "bad_file",  # not JSON, or not a task
    "google_drive",  # needs a Google account
    "needs_web",  # needs files or pages of the web
    "app_missing",  # no template has the app
    "setup_unsupported",
    "getter_unsupported",
    "metric_unsupported",
]

WEB_GETTERS = frozenset(
    {
        "cloud_file",
        "info_from_website",
        "pdf_from_url",
        "page_info",
        "gotoRecreationPage_and_get_html_content",
        "rule_relativeTime",
    }
)
# What these tasks need does not show in their files, only in what they ask for.
HIDDEN_NEEDS: dict[str, tuple[ReasonCode, str]] = {
    "48d05431-6cd5-4e76-82eb-12b60d823f7d": ("needs_web", "It installs packages from the web."),
    "94d95f96-9699-4208-98ba-3c3119edf9c2": ("needs_web", "It installs a program from the web."),
    "b6781586-6346-41cd-935a-a6b1487918fc": (
        "app_missing",
        "No template has systemd, whose time zone it sets.",
    ),
    "bba3381f-b5eb-4439-bd9e-80c22218d5a7": ("needs_web", "It plays a stream of the web."),
    "e1fc0df3-c8b9-4ee7-864c-d0b590d3aa56": ("needs_web", "It installs an extension from the web."),
    "f8369178-fafe-40c2-adc4-b9b08a125456": ("needs_web", "It installs a theme from the web."),
}
MAX_FILE = 4 << 20  # bytes
# Programs that a launch may name and the templates lack, whatever the task's list of apps says.
MISSING_PROGRAMS = {"code": "VS Code", "picard": "Picard"}


class NotATaskSet(Exception):
    """The folder holds no task files."""


@dataclass(frozen=True)
class ImportedTask:
    """One task: `data` is the cleaned JSON, `digest` its SHA-256, `domain` the folder it was found in."""

    id: str
    instruction: str
    domain: str
    related_apps: list[str]
    templates: list[str]
    data: dict[str, Any]
    digest: str


@dataclass(frozen=True)
class Refusal:
    """A file that cannot run here: its path below the folder that was read, a reason code and a sentence."""

    file: str
    code: ReasonCode
    sentence: str


@dataclass
class ImportReport:
    tasks: list[ImportedTask] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)


def read(path: Path) -> ImportReport:
    """Read an OSWorld checkout, its `evaluation_examples` or its `examples` folder. Raises NotATaskSet."""
    folder = examples_folder(path)
    report = ImportReport()
    seen: dict[str, str] = {}
    for file in sorted(folder.rglob("*.json")):
        name = file.relative_to(folder).as_posix()
        read_one = read_file(file, name)
        if isinstance(read_one, ImportedTask) and read_one.id in seen:
            other = seen[read_one.id]
            read_one = Refusal(name, "bad_file", f"The task {read_one.id} is in {other} already.")
        if isinstance(read_one, Refusal):
            report.refused.append(read_one)
        else:
            seen[read_one.id] = name
            report.tasks.append(read_one)
    if not report.tasks and not any(_is_meant_as_task(folder / one.file) for one in report.refused):
        others = f" None of its {len(report.refused):,} JSON files is one." if report.refused else ""
        raise NotATaskSet(
            f"{folder} holds no task files of OSWorld.{others} Name a checkout of OSWorld, its evaluation_examples "
            "or its examples folder."
        )
    return report


def examples_folder(path: Path) -> Path:
    """Where in a checkout the task files are."""
    if not path.is_dir():
        raise NotATaskSet(f"There is no folder {path}.")
    for candidate in (path / "evaluation_examples" / "examples", path / "examples"):
        if candidate.is_dir():
            return candidate
    return path


def read_file(file: Path, name: str, fill: Callable[[Any], Any] = lambda raw: raw) -> ImportedTask | Refusal:
    """One task, or why it is none; `fill` puts in what the file only names."""
    try:
        data = clean(fill(json.loads(read_text(file))))
        _require_storable(data)
        task = parse(data)
        reason = why_not(task)
    except BadTask as error:
        return Refusal(name, "bad_file", str(error))
    except RecursionError:
        return Refusal(name, "bad_file", "It is nested too deeply.")
    except ValueError as error:  # of the decoder, of JSON, of a number with thousands of digits
        return Refusal(name, "bad_file", f"The file is not JSON that can be read: {error}")
    if reason is not None:
        return Refusal(name, *reason)
    return ImportedTask(
        id=task.id,
        instruction=task.instruction,
        domain=file.parent.name,
        related_apps=task.related_apps,
        templates=templates_for(task.related_apps),
        data=data,
        digest=digest(data),
    )


def read_text(file: Path) -> str:
    """What stands in it. Raises BadTask; UnicodeDecodeError."""
    data = read_bytes(file)
    text = data.decode()
    if holds_secret(text):
        raise BadTask("A secret of this console stands in it.")
    return text


def read_bytes(file: Path) -> bytes:
    """Of a file, not of a device or a pipe, and not of one that is huge. Raises BadTask."""
    try:
        if not file.is_file():
            raise BadTask("It is no file.")
        if file.stat().st_size > MAX_FILE:
            raise BadTask(f"It is larger than {MAX_FILE:,} bytes.")
        return file.read_bytes()
    except OSError as error:
        raise BadTask(f"It cannot be read: {error.strerror}.") from error


def _require_storable(data: dict[str, Any]) -> None:
    """Neither NUL nor half a surrogate pair, which JSON can say and the database cannot keep. Raises BadTask."""
    try:
        plain = canonical_json(data)
    except UnicodeEncodeError as error:
        raise BadTask("It holds half of a surrogate pair.") from error
    if b"\\u0000" in plain.replace(b"\\\\", b""):
        raise BadTask("It holds the character NUL.")


def _is_meant_as_task(file: Path) -> bool:
    """Whether it has what only tasks have, be the rest as it may."""
    try:
        raw = json.loads(read_bytes(file))
    except (BadTask, ValueError, RecursionError):
        return False
    return isinstance(raw, dict) and "evaluator" in raw


def why_not(task: Task) -> tuple[ReasonCode, str] | None:
    """The first and most telling reason why a task cannot run here; None when it can. Raises BadTask."""
    steps = [*task.setup, *task.evaluator.postconfig]
    sources = [
        source for check in task.evaluator.checks for source in (check.result, check.expected) if source
    ]
    missing = missing_apps(task.related_apps) + _missing_programs(steps)
    if any(step.type in ("googledrive", "login") for step in steps) or any(
        source.type == "googledrive_file" for source in sources
    ):
        return "google_drive", "It needs a Google account."
    if web := next(_web_needs(task, steps, sources), None):
        return "needs_web", web
    if task.id in HIDDEN_NEEDS:
        return HIDDEN_NEEDS[task.id]
    if missing:
        return "app_missing", f"No template has {', '.join(dict.fromkeys(missing))}."
    if not templates_for(task.related_apps):
        return "app_missing", f"No single template has {', '.join(task.related_apps)}."
    if unknown := [step.type for step in steps if step.type not in STEPS]:
        return "setup_unsupported", f"The setup step {unknown[0]} is not supported yet."
    for kind, name in unsupported(task):
        if kind == "getter":
            return "getter_unsupported", f"The getter {name} is not supported yet."
        return "metric_unsupported", f"The metric {name} is not supported yet."
    return None


def _web_needs(task: Task, steps: list[SetupStep], sources: list[Source]) -> Iterator[str]:
    if task.proxy:
        yield "It opens pages of the web."
    for step in steps:
        if step.type == "download":
            yield "Its setup downloads files."
        if step.type == "chrome_open_tabs" and not all(map(is_local, _urls(step))):
            yield "Its setup opens pages of the web."
    for source in sources:
        if source.type in WEB_GETTERS:
            yield f"Its check needs the web ({source.type})."


def _urls(step: SetupStep) -> list[str]:
    urls = step.parameters.get("urls_to_open")
    if not isinstance(urls, list) or not all(isinstance(url, str) for url in urls):
        raise BadTask(f"Its step {step.type} needs urls_to_open, a list of addresses.")
    return urls


def _missing_programs(steps: list[SetupStep]) -> list[str]:
    found = []
    for step in steps:
        if step.type in ("launch", "execute", "command"):
            try:
                command = as_command(step.parameters.get("command", ""), bool(step.parameters.get("shell")))
            except ValueError as error:
                raise BadTask(f"The command of its step {step.type} cannot be read: {error}.") from error
            words = command.split() if isinstance(command, str) else command
            if words and words[0] in MISSING_PROGRAMS:
                found.append(MISSING_PROGRAMS[words[0]])
    return found
