"""Verifies a run's manifest offline and computes every figure of the run's page again from its rows.

    python deskyard-verify.py run-12-provenance.json --keys keys.json [--events run-12-events.jsonl]

keys.json is what the console answers at /v1/keys: take it from where you trust it, not from whoever gave you the
manifest. With --events the run's log, as downloaded, is compared with the digest that was signed.

Needs Python 3.11 and the package `cryptography`, nothing of Deskyard and no network. Ends with 0 if everything
holds, with 1 and a line for each thing that does not, with 2 if a file cannot be read.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import json
import math
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from statistics import NormalDist
from typing import Any, BinaryIO

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://deskyard.dev/provenance/run/v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
CONFIDENCE = 0.95
# The console's quantile of Student's t is an expansion that is good to 1e-5; this one is exact.
CLOSE = 2e-5
# Times are those of so many finished attempts, of the highest numbers.
SAMPLE = 1_000
STEP_PARTS = ("policy_ms", "act_ms", "settle_ms", "grab_ms")
FINISHED = ("done", "error")
STATUSES = ("queued", "running", "verifying", "done", "error", "cancelled")
SHAPELESS = (KeyError, TypeError, ValueError, AttributeError, IndexError, InvalidOperation, OverflowError)
VERIFIERS = ("valid", "invalid", "not_checked")


class Wrong(Exception):
    """What does not hold, in a sentence."""


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def load(text: bytes) -> Any:
    """JSON in which no key comes twice and no number is NaN or Infinity."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise Wrong("A key comes twice in one object.")
        return found

    def refuse(name: str) -> Any:
        raise Wrong(f"{name} is not a JSON number.")

    try:
        return json.loads(text.decode(), object_pairs_hook=once, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise Wrong(f"It is not JSON: {error}") from error


def exact_base64(text: Any) -> bytes:
    """Only the one spelling that these bytes have."""
    try:
        data = base64.b64decode(text, validate=True)
    except (TypeError, ValueError, binascii.Error) as error:
        raise Wrong(f"A part of the envelope is not base64: {error}") from error
    if base64.b64encode(data).decode() != text:
        raise Wrong("A part of the envelope is not base64 as it was written.")
    return data


def has_keys(value: Any, *keys: str) -> bool:
    return isinstance(value, dict) and set(value) == set(keys)


def published(file: Path) -> dict[str, Ed25519PublicKey]:
    """The public keys that the console answers at /v1/keys, by their ids."""
    try:
        keys = [(key["keyid"], bytes.fromhex(key["public"])) for key in load(file.read_bytes())["keys"]]
        return {keyid: Ed25519PublicKey.from_public_bytes(public) for keyid, public in keys}
    except (Wrong, KeyError, TypeError, ValueError) as error:
        raise Wrong(f"{file} does not hold the keys that a console answers at /v1/keys.") from error


def opened(envelope: Any, keys: dict[str, Ed25519PublicKey]) -> dict[str, Any]:
    """The statement in the envelope, once its signature holds under a published key."""
    if not has_keys(envelope, "payload", "payloadType", "signatures"):
        raise Wrong("It is not a DSSE envelope.")
    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise Wrong("The envelope holds something else than an in-toto statement.")
    payload = exact_base64(envelope["payload"])
    signatures = envelope["signatures"]
    if not isinstance(signatures, list) or [has_keys(one, "keyid", "sig") for one in signatures] != [True]:
        raise Wrong("The envelope does not have exactly one signature.")
    key = keys.get(signatures[0]["keyid"])
    if key is None:
        raise Wrong("The key that signed it is not among the published keys.")
    kind = PAYLOAD_TYPE.encode()
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    try:
        key.verify(exact_base64(signatures[0]["sig"]), signed)
    except InvalidSignature as error:
        raise Wrong("The signature does not hold: the manifest or the signature was changed.") from error
    statement: dict[str, Any] = load(payload)
    if statement.get("_type") != STATEMENT or statement.get("predicateType") != PREDICATE:
        raise Wrong("The statement is not a manifest of a run.")
    return statement


def pieces(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """Each line and whether it is the last one, which is the envelope. Never more than two lines in memory."""
    before: bytes | None = None
    for line in file:
        if before is not None:
            yield before, False
        before = line
    if before is None:
        raise Wrong("The file is empty.")
    yield before, True


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class Rows:
    """What the rows come to, added up as they pass. Keeps a few numbers a task and nothing a row."""

    def __init__(self) -> None:
        self.attempts = self.prefixes = self.desktops = 0
        self.digests = {name: hashlib.sha256() for name in ("attempts", "prefixes", "desktops")}
        # What attempts say of their prefixes, and what these say of themselves: one digest each, in order of number.
        self.named, self.saved = hashlib.sha256(), hashlib.sha256()
        self.last_named = b""
        self.columns: Counter[tuple[str, str]] = Counter()
        self.outcomes: Counter[Any] = Counter()
        self.tasks: dict[str, Counter[str]] = {}
        self.reasons: Counter[str] = Counter()
        self.checkers: Counter[tuple[str, str]] = Counter()
        self.images: Counter[str] = Counter()
        self.workers: set[tuple[str, str, str]] = set()
        self.cost = self.seconds = self.prefix_cost = Decimal(0)
        self.stopped = self.ledger_rows = self.ledger_open = 0
        self.places: dict[str, int] = {"round": 0, "copy": 0, "fork": 0}
        self.last_desktop = 0
        self.last_stop: str | None = None
        self.last_finished: deque[dict[str, Any]] = deque(maxlen=SAMPLE)
        self.up: dict[str, tuple[str, str | None, float | None]] | None = None

    def add(self, row: dict[str, Any], written: bytes) -> None:
        if row["kind"] == "attempt" and not self.prefixes and not self.desktops:
            self.digests["attempts"].update(written)
            self.attempt(row)
        elif row["kind"] == "prefix" and not self.desktops:
            self.digests["prefixes"].update(written)
            self.prefix(row)
        elif row["kind"] == "desktop":
            self.digests["desktops"].update(written)
            self.desktop(row)
        else:
            raise Wrong(f"A row of kind {row['kind']!r} where there should be none.")

    def attempt(self, row: dict[str, Any]) -> None:
        self.attempts += 1
        name = f"Attempt {self.attempts}"
        if row["number"] != self.attempts:
            raise Wrong(f"{name} is missing: its place is taken by {row['number']}.")
        status, verifier, reward = row["status"], row["verifier"], row["reward"]
        if status not in STATUSES or verifier not in VERIFIERS:
            raise Wrong(f"{name} is {status!r}, {verifier!r}, which nothing can be.")
        outcome = None
        if verifier == "valid":
            if not isinstance(reward, int | float):
                raise Wrong(f"{name} is valid and has no reward.")
            outcome = "success" if reward >= 1.0 else "fail"
        if row["outcome"] != outcome:
            raise Wrong(f"{name} is said to be {row['outcome']!r}; its verdict says {outcome!r}.")
        judged = [one["reward"] for one in row["tries"] if one["verdict_digest"]]
        if verifier == "valid" and judged and reward not in judged:
            raise Wrong(f"{name} has the reward {reward}, which none of its verdicts gave.")
        self.columns["status", status] += 1
        self.columns["verifier", verifier] += 1
        self.outcomes[outcome] += 1
        self.forked(name, row)
        for place in self.places:
            self.places[place] = max(self.places[place], row[place])
        if status in FINISHED:
            self.last_finished.append(row)
            task = self.tasks.setdefault(row["task"], Counter())
            task["finished"] += 1
            task["valid"] += verifier == "valid"
            task["success"] += outcome == "success"
            if verifier != "valid":
                self.reasons.update(row["invalid_reasons"])
        else:
            self.tasks.setdefault(row["task"], Counter())
        for one in row["tries"]:
            if one["checker_digest"]:
                self.checkers[one["checker"], one["checker_digest"]] += 1

    def forked(self, name: str, row: dict[str, Any]) -> None:
        """A live fork with a verdict was started from what was saved of its prefix."""
        prefix = row.get("prefix")
        if row["fork_method"] == "live" and row["verifier"] == "valid":
            judged = [one for one in row["tries"] if one["verdict_digest"]]
            if prefix is None or any(one["from_digest"] != prefix["state_digest"] for one in judged):
                raise Wrong(f"{name} is no fork of the desktop that was saved.")
        if prefix is not None and (said := of_prefix(prefix)) != self.last_named:
            self.named.update(said)
            self.last_named = said

    def prefix(self, row: dict[str, Any]) -> None:
        self.prefixes += 1
        if row["status"] in ("saved", "done") and not row["state_digest"]:
            raise Wrong(f"Prefix {row['number']} was saved without a digest.")
        self.saved.update(of_prefix(row))

    def desktop(self, row: dict[str, Any]) -> None:
        self.desktops += 1
        name = f"Desktop {row['computer']}"
        number = int(row["computer"].removeprefix("c-"))
        if number <= self.last_desktop:
            raise Wrong(f"{name} is not in its place.")
        self.last_desktop = number
        if row["stopped_at"] is not None:
            self.stopped += 1
            self.last_stop = max(self.last_stop or row["stopped_at"], row["stopped_at"], key=moment)
        if self.up is None:
            sampled = {one["computer"]: None for row in self.last_finished for one in row["tries"]}
            self.up = dict.fromkeys(sampled, ("", None, None))
        if row["computer"] in self.up:
            self.up[row["computer"]] = row["started_at"], row["stopped_at"], row["ready_seconds"]
        self.images[row["image_id"] or ""] += 1
        self.workers.add((row["worker"], row["worker_version"], row["engine"]))
        entry = row["ledger"]
        if entry is None:
            return
        self.ledger_rows += 1
        if entry["cost_usd"] is None:
            self.ledger_open += 1
            return
        seconds, cost = Decimal(entry["seconds"]), Decimal(entry["cost_usd"])
        if cost < 0 or seconds < 0:
            raise Wrong(f"{name} has a cost or a time below nothing.")
        # A desktop that outlived its paid time costs what was paid, so it may cost less than its time, never more.
        if cost > seconds * Decimal(entry["rate_usd_per_hour"]) / 3600 + Decimal("0.000001"):
            raise Wrong(f"{name} costs more than its seconds at its rate.")
        self.cost += cost
        self.seconds += seconds
        if row.get("purpose") == "prefix":
            self.prefix_cost += cost


def of_prefix(said: dict[str, Any]) -> bytes:
    return canonical([said["number"], said["state_digest"]]) + b"\n"


# ── figures ───────────────────────────────────────────────────────────────────────────────────────────────────────


def counts(rows: Rows, planned: int, final: bool) -> dict[str, int]:
    """Planned attempts without a row are queued, or cancelled once the run has ended, and not checked."""
    unstored = planned - rows.attempts
    found = {name: rows.columns["status", name] for name in STATUSES}
    found |= {name: rows.columns["verifier", name] for name in VERIFIERS}
    found["cancelled" if final else "queued"] += unstored
    found["not_checked"] += unstored
    return {
        "planned": planned,
        **found,
        "success": rows.outcomes["success"],
        "fail": rows.outcomes["fail"],
    }


def rate(tasks: Iterable[Counter[str]]) -> dict[str, Any]:
    """Success over valid attempts; the interval is clustered by task."""
    every = list(tasks)
    judged = [task for task in every if task["valid"]]
    success, valid = sum(task["success"] for task in judged), sum(task["valid"] for task in judged)
    finished = sum(task["finished"] for task in every)
    nothing = finished - valid
    found = {
        "success": success,
        "valid": valid,
        "fail": valid - success,
        "finished": finished,
        "no_verdict": nothing,
        "coverage": valid / finished if finished else None,
        "worst": success / finished if finished else 0.0,
        "best": (success + nothing) / finished if finished else 1.0,
        "tasks": len(judged),
    }
    if not valid:
        return {**found, "rate": None, "low": None, "high": None, "method": ""}
    share = success / valid
    if len(judged) == 1:
        low, high, method = *wilson(success, valid), "Wilson"
    elif success in (0, valid):
        low, high, method = *wilson(len(judged) if success else 0, len(judged)), "Wilson, by task"
    else:
        n = len(judged)
        spread = sum((task["success"] - share * task["valid"]) ** 2 for task in judged)
        error = math.sqrt(n / (n - 1) * spread) / valid
        half = student_t(0.5 + CONFIDENCE / 2, n - 1) * error
        low, high, method = max(0.0, share - half), min(1.0, share + half), "by task"
    return {**found, "rate": share, "low": low, "high": high, "method": method}


def timing(rows: Rows) -> dict[str, Any]:
    """The times of the Metrics tab."""
    took = sorted(
        (moment(row["ended_at"]) - moment(row["started_at"])).total_seconds()
        for row in rows.last_finished
        if row["started_at"] and row["ended_at"]
    )
    tries = [one for row in rows.last_finished for one in row["tries"]]
    steps = [step for one in tries for step in one["step_ms"]]
    return {
        "of_last": SAMPLE,
        "attempt_seconds": {
            "median": percentile(took, 0.5),
            "p95": percentile(took, 0.95),
        }
        if took
        else None,
        "step_ms": {
            name: {"median": percentile(column, 0.5), "p95": percentile(column, 0.95)}
            for name, column in zip(STEP_PARTS, zip(*steps, strict=True), strict=False)
        },
        "desktop_seconds": desktop_seconds(rows, tries),
    }


def desktop_seconds(rows: Rows, tries: list[dict[str, Any]]) -> dict[str, float]:
    """What desktops of these tries were doing; of tries that broke only how long there was one."""
    found = dict.fromkeys(("up", "policy", "settle", "act", "start", "setup", "verify", "broken"), 0.0)
    for one in tries:
        up, start = 0.0, 0.0
        if one["computer"]:
            started, stopped, ready = (rows.up or {})[one["computer"]]
            gone = stopped or one["ended_at"]
            up = (moment(gone) - moment(started)).total_seconds() if gone else 0.0
            start = ready or 0.0
        found["up"] += up
        if one["ok"]:
            found["start"] += start
            found["setup"] += one["setup_seconds"] or 0.0
            found["verify"] += one["verify_seconds"] or 0.0
            for policy, act, settle, grab in one["step_ms"]:
                found["policy"] += policy / 1000
                found["settle"] += settle / 1000
                found["act"] += (act + grab) / 1000
        elif one["ok"] is False:
            found["broken"] += up
    return found


def percentile(column: Iterable[float], p: float) -> float:
    """Interpolated between its neighbours."""
    ordered = sorted(column)
    at = p * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (at - low))


def wilson(success: int, n: int) -> tuple[float, float]:
    """Both ends of Wilson's score interval: the shares p with (success/n − p)² = z² p (1 − p) / n."""
    z2 = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2) ** 2
    a, b, c = 1 + z2 / n, -(2 * success / n + z2 / n), (success / n) ** 2
    root = math.sqrt(max(0.0, b * b - 4 * a * c))
    return max(0.0, (-b - root) / (2 * a)), min(1.0, (-b + root) / (2 * a))


def student_t(p: float, df: int) -> float:
    """The quantile, by halving. With t = √df · tan θ its distribution is an integral of cosᵈᶠ⁻¹, which Simpson's rule
    has to far more places than are compared."""
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi)

    def below(theta: float, n: int = 400) -> float:
        values = [math.cos(theta * i / n) ** (df - 1) for i in range(n + 1)]
        inner = 4 * sum(values[1:-1:2]) + 2 * sum(values[2:-1:2])
        return 0.5 + scale * (values[0] + inner + values[-1]) * theta / n / 3

    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < p else (low, middle)
    return math.sqrt(df) * math.tan(low)


# ── comparing ─────────────────────────────────────────────────────────────────────────────────────────────────────


def same(stated: Any, found: Any) -> bool:
    """Exactly the same, but for shares, which are so within CLOSE."""
    if isinstance(found, dict):
        return has_keys(stated, *found) and all(same(stated[key], found[key]) for key in found)
    if isinstance(found, list):
        return isinstance(stated, list) and len(stated) == len(found) and all(map(same, stated, found))
    if isinstance(found, Decimal):
        return isinstance(stated, str) and Decimal(stated) == found
    if isinstance(found, float):
        return isinstance(stated, int | float) and abs(stated - found) <= CLOSE
    return type(stated) is type(found) and bool(stated == found)


def compare(statement: dict[str, Any], rows: Rows, events: Path | None) -> Iterator[tuple[str, bool, str]]:
    """Each thing that was compared: what, whether it holds, what was found."""
    predicate = statement["predicate"]
    run, resolved, figures = predicate["run"], predicate["resolved"], predicate["figures"]
    request = run["request"]

    def check(what: str, stated: Any, found: Any) -> tuple[str, bool, str]:
        holds = same(stated, found)
        return what, holds, f"{shown(found)}" if holds else f"stated {shown(stated)}, found {shown(found)}"

    signed = {row["name"].rsplit("/", 1)[1]: row["digest"]["sha256"] for row in statement["subject"]}
    for name, digest in rows.digests.items():
        yield check(f"digest of the {name}", signed[name], digest.hexdigest())
    if set(signed) != {"attempts", "prefixes", "desktops", "events"}:
        yield "subjects", False, "attempts, prefixes, desktops and events, and nothing else, are signed"
    yield check("prefixes that attempts name", rows.named.hexdigest(), rows.saved.hexdigest())
    if events is not None:
        with events.open("rb") as file:
            yield check(
                "digest of the events", signed["events"], hashlib.file_digest(file, "sha256").hexdigest()
            )

    names = [task["id"] for task in resolved["tasks"]]
    yield check("tasks asked for", request["tasks"], names)
    played = set(rows.tasks) - set(names)
    yield "tasks played", not played, "all asked for" if not played else f"not asked for: {sorted(played)}"
    copies, forks = request["parallel_copies"], request["fork_copies"]
    whole = len(names) * copies * forks
    planned = whole * request["rounds"]
    asked = {"round": run["rounds_created"], "copy": copies, "fork": forks}
    yield check("rounds, copies and forks", asked if rows.attempts else rows.places, rows.places)
    yield check("rows", whole * run["rounds_created"], rows.attempts)
    found = counts(rows, planned, run["final"])
    yield check("counts", predicate["counts"], found)
    if run["final"]:
        going_on = found["queued"] + found["running"] + found["verifying"]
        yield check("attempts still going on", 0, going_on)
    adds_up = (
        found["planned"] == sum(found[name] for name in STATUSES) == sum(found[name] for name in VERIFIERS)
    )
    yield "planned = sum of each column", adds_up, shown(found["planned"])

    by_task = [
        {"task": name, **{key: task[key] for key in ("finished", "valid", "success")}}
        | {"fail": task["valid"] - task["success"], "no_verdict": task["finished"] - task["valid"]}
        for name in names
        if (task := rows.tasks.get(name)) and task["finished"]
    ]
    yield check("results by task", figures["tasks"], by_task)
    total = rate(task for task in rows.tasks.values() if task["finished"])
    yield check(
        "success rate, interval, coverage, worst and best case",
        figures["rate"],
        None if run["kind"] == "scripted_test" else total,
    )
    reasons = [
        {"reason": name, "count": n} for name, n in sorted(rows.reasons.items(), key=lambda r: (-r[1], r[0]))
    ]
    yield check("reasons for no verdict", figures["no_verdict"], reasons)

    cost = predicate["cost"]
    yield check("spent", cost["spent_usd"], rows.cost)
    yield check("cost of prefixes", figures["prefix_cost_usd"], rows.prefix_cost)
    within = Decimal(cost["spent_usd"]) + Decimal(cost["reserved_usd"]) <= Decimal(cost["cap_usd"])
    of_cap = f"{cost['spent_usd']} + {cost['reserved_usd']} of {cost['cap_usd']}"
    yield "spent and reserved within the cap", within, of_cap
    if "left_usd" in cost:
        left = Decimal(cost["cap_usd"]) - Decimal(cost["spent_usd"]) - Decimal(cost["reserved_usd"])
        yield check("left", cost["left_usd"], left)
    receipt = {
        "started": rows.desktops,
        "stopped": rows.stopped,
        "left": rows.desktops - rows.stopped,
        "swept_at": figures["receipt"]["swept_at"],
        "ledger_rows": rows.ledger_rows,
        "ledger_open": rows.ledger_open,
        "seconds": rows.seconds,
        "cost_usd": rows.cost,
    }
    yield check("receipt", figures["receipt"], receipt)
    swept, stops = figures["receipt"]["swept_at"], rows.last_stop
    yield (
        "swept after the last desktop was gone",
        swept is None or stops is None or moment(swept) > moment(stops),
        f"{swept or 'not yet'}, the last was gone at {stops}",
    )
    yield check("times of attempts, steps and desktops", figures["timing"], timing(rows))
    took = None
    if run["started_at"] and run["ended_at"]:
        # A reopened run counts both its stretches, and not the time in between.
        took = run.get("earlier_seconds", 0.0)
        since = run["resumed_at"] if run.get("reopened") else run["started_at"]
        if since:
            took += (moment(run["ended_at"]) - moment(since)).total_seconds()
    yield check("time taken", figures["took_seconds"], took)

    images = [{"image_id": name or None, "desktops": n} for name, n in sorted(rows.images.items())]
    yield check("images", resolved["template"]["images"], images)
    checkers = [
        {"checker": name, "digest": digest, "verdicts": n}
        for (name, digest), n in sorted(rows.checkers.items())
    ]
    yield check("checkers", resolved["checkers"], checkers)
    workers = [
        {"name": name, "version": version, "engine": engine} for name, version, engine in sorted(rows.workers)
    ]
    yield check("workers", resolved["workers"], workers)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def shown(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}…"


def verify(manifest: Path, keys: Path, events: Path | None, say: Callable[[str], object]) -> bool:
    """Says what was compared and how it came out; True if everything holds."""
    rows = Rows()
    envelope: Any = None
    try:
        with manifest.open("rb") as file:
            for line, last in pieces(file):
                if last:
                    envelope = load(line)
                    if canonical(envelope) != line:
                        raise Wrong(
                            "The envelope is not written as it was: something was added or taken away."
                        )
                else:
                    rows.add(load(line), line)
        statement = opened(envelope, published(keys))
        predicate = statement["predicate"]
        if (predicate["attempts"] is None) != (rows.attempts + rows.desktops > 0):
            raise Wrong("Rows stand both in the statement and before it, or nowhere.")
        for row in (row for name in rows.digests for row in predicate[name] or ()):
            rows.add(row, canonical(row) + b"\n")
        results = list(compare(statement, rows, events))
    except Wrong as wrong:
        say(f"WRONG  {wrong}")
        return False
    except SHAPELESS as error:
        say(f"WRONG  It does not have the shape of a manifest: {type(error).__name__}: {error}")
        return False
    run = predicate["run"]
    say(
        f"Run #{run['number']} of {run['workspace']}, {run['status']}, signed by {envelope['signatures'][0]['keyid']}"
    )
    if not run["final"]:
        say("The run had not ended when this was signed.")
    say("ok     signature")
    for what, holds, found in results:
        say(f"{'ok    ' if holds else 'WRONG '} {what}: {found}")
    return all(holds for _, holds, _ in results)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--keys", type=Path, required=True, help="what the console answers at /v1/keys")
    parser.add_argument("--events", type=Path, help="the run's log as JSON lines")
    asked = parser.parse_args()
    try:
        holds = verify(asked.manifest, asked.keys, asked.events, print)
    except OSError as error:
        parser.error(f"{error.filename} cannot be read: {error.strerror}")
    print("Everything holds." if holds else "It does not hold.")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
