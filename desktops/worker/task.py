"""A task as the worker plays it: OSWorld's JSON format, cleaned and typed.

`clean` turns raw JSON into the one cleaned form that is stored, hashed and sent; `parse` types it. Both
accept
what they themselves have made, so cleaning twice changes nothing.

The format's known dirt, each tolerated by name in the function that mends it:

* flags as strings (`"shell": "true"`): `_mend_flags`
* the key `"type:"` for `"type"`: `_mend_keys`
* nulls in lists of steps, results, expecteds and options: `_steps`, `_column`
* a single dictionary where several metrics want a list, and the reverse: `_column`
* names of apps in several spellings: `APP_ALIASES`
* placeholders for password and screen size: `PLACEHOLDERS`
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from desktops.protocol.actions import SCREEN_HEIGHT, SCREEN_WIDTH

INFEASIBLE = "infeasible"

# OSWorld's machines have this password; ours have no root at all and a `sudo` that asks for nothing.
PLACEHOLDERS = {
    "{CLIENT_PASSWORD}": "password",
    "{SCREEN_WIDTH}": str(SCREEN_WIDTH),
    "{SCREEN_HEIGHT}": str(SCREEN_HEIGHT),
    "{SCREEN_WIDTH_HALF}": str(SCREEN_WIDTH // 2),
    "{SCREEN_HEIGHT_HALF}": str(SCREEN_HEIGHT // 2),
}

APP_ALIASES = {
    "libreoffice calc": "libreoffice_calc",
    "calc": "libreoffice_calc",
    "libreoffice writer": "libreoffice_writer",
    "writer": "libreoffice_writer",
    "libreoffice impress": "libreoffice_impress",
    "impress": "libreoffice_impress",
    "vs_code": "vscode",
    "code": "vscode",
    "google-chrome": "chrome",
    "google_chrome": "chrome",
    "chromium": "chrome",
    "browser": "chrome",
    "excel": "libreoffice_calc",
    "ubuntu": "os",
}

# Only these keys are flags. "true" elsewhere is a value: a rule may well expect the text "true".
FLAGS = frozenset({"shell", "multi", "strict", "by_class", "proxy", "fixed_ip", "env_may_change"})


class BadTask(ValueError):
    """The task's JSON cannot be read as a task."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SetupStep(_Part):
    """One step before the first action (config) or before the check (postconfig)."""

    type: str
    parameters: dict[str, Any] = {}


class Source(_Part):
    """Where a value comes from: a getter's name and its parameters."""

    type: str
    parameters: dict[str, Any] = {}


class Check(_Part):
    """One metric over a found and an expected value."""

    metric: str
    result: Source | None = None
    expected: Source | None = None
    options: dict[str, Any] = {}


class Evaluator(_Part):
    checks: list[Check] = Field(min_length=1)
    conj: Literal["and", "or"] = "and"
    postconfig: list[SetupStep] = []

    @property
    def infeasible(self) -> bool:
        """The right answer is to say that the task cannot be done."""
        return self.checks[0].metric == INFEASIBLE


class Task(_Part):
    id: str = Field(min_length=1, max_length=200)
    instruction: str = Field(min_length=1)
    snapshot: str = ""
    setup: list[SetupStep] = []
    evaluator: Evaluator
    related_apps: list[str] = []
    proxy: bool = False


def clean(raw: Any) -> dict[str, Any]:
    """The cleaned JSON form. Raises BadTask with a sentence when it is not a task at all."""
    if not isinstance(raw, dict):
        raise BadTask("The file holds no JSON object.")
    for key in ("id", "instruction", "evaluator"):
        if not raw.get(key):
            raise BadTask(f"The task has no {key}.")
    if not isinstance(raw["evaluator"], dict):
        raise BadTask("The evaluator is not an object.")
    task: dict[str, Any] = {
        "id": str(raw["id"]),
        "snapshot": str(raw.get("snapshot") or ""),
        "instruction": str(raw["instruction"]).strip(),
        "source": raw.get("source") or "",
        "config": _steps(raw.get("config"), "config"),
        "related_apps": canonical_apps(raw.get("related_apps") or []),
        "proxy": _flag(raw.get("proxy", False)),
        "evaluator": _evaluator(raw["evaluator"]),
    }
    if not _flag(raw.get("keep_setup", True)):  # ours: set up anew for each attempt
        task["keep_setup"] = False
    filled: dict[str, Any] = _fill(task)
    return filled


def parse(raw: Any) -> Task:
    """The typed task. Raises BadTask."""
    data = clean(raw)
    evaluator = data["evaluator"]
    try:
        return Task(
            id=data["id"],
            instruction=data["instruction"],
            snapshot=data["snapshot"],
            setup=[SetupStep(**step) for step in data["config"]],
            evaluator=Evaluator(
                checks=_checks(evaluator),
                conj=evaluator["conj"],
                postconfig=[SetupStep(**step) for step in evaluator["postconfig"]],
            ),
            related_apps=data["related_apps"],
            proxy=data["proxy"],
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadTask(f"{where}: {first['msg']}.") from error


def canonical_json(value: Any) -> bytes:
    """Sorted keys, no blanks, UTF-8: one byte string per value, fit for hashing."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def digest(cleaned: dict[str, Any]) -> str:
    """SHA-256, in hex, of a cleaned task's canonical JSON."""
    return hashlib.sha256(canonical_json(cleaned)).hexdigest()


def canonical_apps(names: list[Any]) -> list[str]:
    """Names of apps in one spelling, without repetition, in their order."""
    seen: dict[str, None] = {}
    for name in names:
        if name:
            lowered = str(name).strip().lower()
            seen[APP_ALIASES.get(lowered, lowered)] = None
    return list(seen)


# ── evaluator ────────────────────────────────────────────────────────────────────────────────


def _evaluator(raw: dict[str, Any]) -> dict[str, Any]:
    raw = _mend(raw)
    functions = raw.get("func")
    many = isinstance(functions, list)
    names = (
        [str(name) for name in functions if name] if isinstance(functions, list) else [str(functions or "")]
    )
    if not names or not names[0]:
        raise BadTask("The evaluator names no function.")
    cleaned: dict[str, Any] = {
        "func": names if many else names[0],
        "conj": str(raw.get("conj") or "and").lower(),
        "postconfig": _steps(raw.get("postconfig"), "postconfig"),
    }
    if cleaned["conj"] not in ("and", "or"):
        raise BadTask(f"The evaluator joins its metrics by {cleaned['conj']!r}, not by and or or.")
    for column in ("result", "expected", "options"):
        values = _column(raw.get(column), len(names), column)
        if any(value is not None for value in values):
            cleaned[column] = values if many else values[0]
    return cleaned


def _column(value: Any, wanted: int, name: str) -> list[Any]:
    """One value per metric: a single dictionary serves all, nulls stay as "none here"."""
    if value is None:
        return [None] * wanted
    if isinstance(value, dict):
        return [value or None] * wanted
    if not isinstance(value, list):
        raise BadTask(f"The evaluator's {name} is neither an object nor a list.")
    if len(value) == 1:
        value = value * wanted
    if len(value) != wanted:
        raise BadTask(f"The evaluator has {wanted} metrics and {len(value)} entries in {name}.")
    return [item or None for item in value]


def _checks(evaluator: dict[str, Any]) -> list[Check]:
    functions = evaluator["func"]
    many = isinstance(functions, list)
    names = functions if many else [functions]

    def at(column: str, index: int) -> dict[str, Any] | None:
        value = evaluator.get(column)
        found: dict[str, Any] | None = value[index] if many and value is not None else value
        return found

    return [
        Check(
            metric=name,
            result=_source(at("result", index)),
            expected=_source(at("expected", index)),
            options=at("options", index) or {},
        )
        for index, name in enumerate(names)
    ]


def _source(value: dict[str, Any] | None) -> Source | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not value.get("type"):
        raise BadTask("A result or expected entry of the evaluator has no type.")
    return Source(type=value["type"], parameters={key: item for key, item in value.items() if key != "type"})


# ── mending ────────────────────────────────────────────────────────────────────────────────


def _steps(value: Any, name: str) -> list[dict[str, Any]]:
    """Setup steps without nulls; one step may stand without its list."""
    if value is None:
        return []
    steps = [value] if isinstance(value, dict) else value
    if not isinstance(steps, list):
        raise BadTask(f"{name} is not a list of steps.")
    cleaned = []
    for step in steps:
        if step is None:
            continue
        mended = _mend(step)
        if not isinstance(mended, dict) or not mended.get("type"):
            raise BadTask(f"A step of {name} has no type.")
        cleaned.append({"type": str(mended["type"]), "parameters": mended.get("parameters") or {}})
    return cleaned


def _mend(value: Any) -> Any:
    if isinstance(value, dict):
        return _mend_flags(_mend_keys({key: _mend(item) for key, item in value.items()}))
    if isinstance(value, list):
        return [_mend(item) for item in value]
    return value


def _mend_keys(value: dict[str, Any]) -> dict[str, Any]:
    """`"type:"` and its like lose the colon, unless the right key is there too."""
    mended = {}
    for key, item in value.items():
        bare = key.rstrip(":").strip() if key.endswith(":") else key
        if bare not in mended and (bare == key or bare not in value):
            mended[bare] = item
    return mended


def _mend_flags(value: dict[str, Any]) -> dict[str, Any]:
    return {key: _flag(item) if key in FLAGS else item for key, item in value.items()}


def _flag(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in ("true", "1", "yes")
    return bool(value)


def _fill(value: Any) -> Any:
    """Placeholders replaced in every string."""
    if isinstance(value, dict):
        return {key: _fill(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item) for item in value]
    if isinstance(value, str):
        for name, text in PLACEHOLDERS.items():
            value = value.replace(name, text)
    return value
