"""What must hold after every scenario, whatever was done to whom. One function, by plain SQL and by the engine."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

from .observer import Seen
from .processes import until
from .rig import TERMINAL, Lab

# Seconds of one desktop by which the ledger may lie outside of what the engine's own event stream tells: a desktop that
# ends itself needs a moment, more of one on a machine under load.
TOLERANCE = 3.0
# A container that is removed this long after it died was left by a dead worker: it existed until it died.
LEFT = 15.0
SETTLED_SECONDS = 120


def check(lab: Lab) -> None:
    """All of it for one lab, whose runs have all ended."""
    runs = lab.rig.rows("SELECT * FROM runs_run WHERE workspace_id = %s", lab.key)
    assert runs, "the scenario made no run"
    for run in runs:
        assert run["status"] in TERMINAL, (run["status"], run["stop_reason"])
        _attempts(lab, run)
        _verdicts(lab, run)
        _events(lab, run)
    _assignments(lab)
    money_adds_up(lab)
    nothing_is_left(lab)


def _attempts(lab: Lab, run: dict[str, Any]) -> None:
    """Every attempt has ended, the counters are the rows', and planned = done + error + cancelled."""
    rows = lab.attempts(str(run["id"]))
    by_status = Counter(row["status"] for row in rows)
    assert set(by_status) <= {"done", "error", "cancelled"}, by_status
    assert (run["running"], run["verifying"]) == (0, 0)
    assert run["planned"] == run["done"] + run["error"] + run["cancelled"]
    assert (run["done"], run["error"]) == (by_status["done"], by_status["error"])
    never_stored = run["planned"] - len(rows)
    assert run["cancelled"] == by_status["cancelled"] + never_stored
    by_verifier = Counter(row["verifier"] for row in rows)
    assert (run["valid"], run["invalid"]) == (by_verifier["valid"], by_verifier["invalid"])
    assert run["success"] == sum(row["outcome"] == "success" for row in rows)
    for row in rows:
        expected = None
        if row["verifier"] == "valid":
            expected = "success" if row["reward"] >= 1.0 else "fail"
        assert row["outcome"] == expected


def _verdicts(lab: Lab, run: dict[str, Any]) -> None:
    """One verdict an attempt at most: among its tries and in the log. Its try's steps are whole."""
    tries = lab.tries(str(run["id"]))
    told = lab.rig.rows(
        "SELECT attempt_number, kind, count(*) AS times FROM runs_event"
        " WHERE run_id = %s AND kind IN ('attempt_verdict', 'attempt_ended') GROUP BY 1, 2",
        run["id"],
    )
    times = {(row["attempt_number"], row["kind"]): row["times"] for row in told}
    for attempt in lab.attempts(str(run["id"])):
        number = attempt["number"]
        own = [row for row in tries if row["attempt_number"] == number]
        verdicts = [row for row in own if row["verdict"] is not None]
        valid = attempt["verifier"] == "valid"
        assert len(verdicts) == int(valid), f"attempt {number} has {len(verdicts)} verdicts"
        assert times.get((number, "attempt_verdict"), 0) == int(valid)
        # What was never tried is cancelled all at once, and says nothing of its own.
        assert times.get((number, "attempt_ended"), 0) == int(bool(own)), (number, times, own)
        assert len(own) == attempt["tries"]
        assert all(row["ended_at"] is not None for row in own), f"attempt {number} has an open try"
        for row in verdicts:
            # Those of a fork go on from its prefix's, which are stored once.
            shared = attempt["prefix_id"] if attempt["fork_method"] == "live" else None
            steps = lab.rig.rows(
                "SELECT number FROM runs_step WHERE attempt_try_id = %s OR prefix_try_id ="
                " (SELECT id FROM runs_prefixtry WHERE prefix_id = %s AND ok) ORDER BY number",
                row["id"],
                shared,
            )
            assert [step["number"] for step in steps] == list(range(1, len(steps) + 1))
            assert attempt["steps"] == len(steps)


def _events(lab: Lab, run: dict[str, Any]) -> None:
    """The log's numbers have no gap and no double."""
    numbers = lab.rig.rows("SELECT seq FROM runs_event WHERE run_id = %s ORDER BY seq", run["id"])
    assert [row["seq"] for row in numbers] == list(range(1, run["last_seq"] + 1))


def _assignments(lab: Lab) -> None:
    live = lab.rig.rows(
        "SELECT id, status, reserved FROM desktops_assignment WHERE workspace_id = %s"
        " AND (status NOT IN ('ended', 'lost') OR reserved <> 0)",
        lab.key,
    )
    assert live == []


def money_adds_up(lab: Lab) -> None:
    """Nothing reserved, no cap passed, every level the sum of its ledger, and the ledger what the engine saw."""
    open_entries = "SELECT count(*) FROM console_ledgerentry WHERE workspace_id = %s AND settled_at IS NULL"
    # What a worker said last is still on its way through the console when the worker has ended.
    until(lambda: lab.rig.value(open_entries, lab.key) == 0, SETTLED_SECONDS, "the settling of every desktop")
    budgets = lab.rig.rows("SELECT * FROM console_budget WHERE workspace_id = %s", lab.key)
    entries = lab.rig.rows("SELECT * FROM console_ledgerentry WHERE workspace_id = %s", lab.key)
    spent = sum((entry["cost"] for entry in entries), Decimal(0))
    for budget in budgets:
        assert budget["reserved"] == 0
        assert budget["cap"] is None or budget["spent"] <= budget["cap"]
        if budget["parent_id"] is None:
            assert budget["spent"] == spent
        else:
            own = (entry["cost"] for entry in entries if entry["budget_id"] == budget["id"])
            assert budget["spent"] == sum(own, Decimal(0))
    seen = lab.rig.seen(lab.owners)
    ledger = {str(entry["subject"]): float(entry["seconds"]) for entry in entries}
    unseen = {computer: ledger[computer] for computer in ledger.keys() - seen.keys()}
    assert not unseen, f"desktops are paid for that nobody saw: {unseen}"
    unpaid = {computer for computer, one in seen.items() if one.owner} - ledger.keys()
    if any(worker.warm for worker in lab.workers):  # these make desktops to save them, at nobody's cost
        unpaid -= {computer for computer in unpaid if seen[computer].for_itself}
    assert not unpaid, f"desktops nobody pays for: {unpaid}"
    for computer in ledger:
        one = seen[computer]
        least, most = _existed(one)
        assert least - TOLERANCE <= ledger[computer] <= most + TOLERANCE, (computer, ledger[computer], one)


def _existed(seen: Seen) -> tuple[float, float]:
    """Seconds: from its first process to its last, and from its making to its removal."""
    assert seen.started is not None
    died = seen.died or seen.removed
    assert died is not None, f"the engine has not ended {seen}"
    removed = seen.removed if seen.removed and seen.removed - died < LEFT else died
    return died - seen.started, removed - seen.created


def nothing_is_left(lab: Lab) -> None:
    """No desktop of its workers, whatever engine made it, and none that the console believes to be there."""
    left = lab.rig.left(lab.owners)
    assert not left, f"desktops are left: {left}"
    for worker in lab.workers:
        boxes = worker.home / "desktops" / "boxes"
        assert not boxes.is_dir() or list(boxes.iterdir()) == []
    held = lab.rig.rows(
        "SELECT id FROM desktops_computer WHERE workspace_id = %s AND stopped_at IS NULL", lab.key
    )
    assert held == []
