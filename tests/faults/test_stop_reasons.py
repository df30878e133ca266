"""Every reason for which a run stops, reached the way it happens in life, on real desktops.

A test looks at what came of the scenario of its name. After each of them the same invariants hold.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest

from console.embedded.api import ApiError

from .people import Person, page_of, words
from .processes import until
from .rig import TERMINAL, Lab, Rig
from .scenario import END_SECONDS, Played, Scenario

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(1800)]


# ── the scenarios ─────────────────────────────────────────────────────────────────────────────────────────────────


def all_tasks_done(rig: Rig) -> Played:
    lab = rig.lab()
    lab.worker()
    return Played(lab, lab.run("solved", "unsolved", "unreadable"))


def verifying(rig: Rig) -> Played:
    """Watched all the while: every status on the way is seen, of the run and of its attempts."""
    lab = rig.lab()
    lab.worker(slots=1)
    run = lab.run("judged", parallel_copies=2)
    seen: set[str] = set()

    def ended() -> bool:
        seen.update(row["status"] for row in lab.attempts(run))
        return lab.status(run) in TERMINAL

    until(ended, END_SECONDS)
    return Played(lab, run, seen=seen)


def verified_target_reached(rig: Rig) -> Played:
    lab = rig.lab()
    lab.worker(slots=1)
    return Played(lab, lab.run("solved", "unsolved", rounds=3, stop_after_valid=2))


def budget_exceeded(rig: Rig) -> Played:
    lab = rig.lab(rate="36")  # a cent a second
    lab.worker()
    return Played(lab, lab.run("endless", parallel_copies=2, spend_cap_usd="0.40"))


def workspace_budget_exceeded(rig: Rig) -> Played:
    lab = rig.lab(rate="36", cap="0.20")
    lab.worker(slots=1)
    return Played(lab, lab.run("endless", "solved", spend_cap_usd="5.00"))


def time_cap_reached(rig: Rig) -> Played:
    lab = rig.lab()
    lab.worker(slots=1)
    return Played(lab, lab.run("endless", "solved", time_cap_minutes=1))


def time_cap_lowered(rig: Rig) -> Played:
    lab = rig.lab()
    lab.worker(slots=1)
    run = lab.run("endless", "solved", time_cap_minutes=30)
    lab.await_status(run, "running")
    with Person(rig, "owner") as owner:
        owner.submit(f"{page_of(lab, run)}caps/", time_cap_minutes="1").raise_for_status()
    return Played(lab, run, changes=cap_changes(lab))


def spend_cap_lowered(rig: Rig) -> Played:
    """To less than what is used, which is refused; then as far as it goes."""
    lab = rig.lab(rate="36")
    lab.worker(slots=1)
    run = lab.run("endless", "solved", spend_cap_usd="5.00")
    lab.await_status(run, "running")
    said = []

    def lowered(to: str) -> bool:
        reply = owner.submit(f"{page_of(lab, run)}caps/", spend_cap_usd=to)
        said.append(words(reply))
        return reply.ok

    with Person(rig, "owner") as owner:
        refused = not lowered("0.01")
        # More of it may be reserved by the time that the lowest possible is asked for.
        until(lambda: lowered(re.findall(r"so \$(\S+) is the lowest possible", said[-1])[0]), 60)
    return Played(lab, run, refused=refused, changes=cap_changes(lab))


def caps_raised(rig: Rig) -> Played:
    """Both, of a run that would have come to an end by either."""
    lab = rig.lab(rate="36")
    lab.worker(slots=1)
    run = lab.run("slow", parallel_copies=2, spend_cap_usd="0.30", time_cap_minutes=1)
    lab.await_status(run, "preparing", "running")
    with Person(rig, "owner") as owner:
        form = {"spend_cap_usd": "5.00", "time_cap_minutes": "30"}
        owner.submit(f"{page_of(lab, run)}caps/", **form).raise_for_status()
    return Played(lab, run, changes=cap_changes(lab))


def cap_changes(lab: Lab) -> list[tuple[str, dict[str, Any]]]:
    """(by whom, what) of each that the audit log and the run's own log tell of."""
    told = lab.rig.rows(
        "SELECT e.data FROM runs_event e JOIN runs_run r ON r.id = e.run_id"
        " WHERE r.workspace_id = %s AND e.kind = 'cap_changed' ORDER BY e.seq",
        lab.key,
    )
    audited = lab.rig.rows(
        "SELECT actor_label, detail FROM console_auditentry WHERE workspace_id = %s AND action = 'run.cap_changed'"
        " ORDER BY id",
        lab.key,
    )
    said = [(row["actor_label"], row["detail"]) for row in audited]
    events = [{name: value for name, value in row["data"].items() if value is not None} for row in told]
    assert events == [{"actor": actor, **detail} for actor, detail in said]
    return said


def cancelled_by(who: str, creator: str = "member") -> Any:
    def cancelled(rig: Rig) -> Played:
        lab = rig.lab()
        worker = lab.worker()
        run = lab.run("endless", parallel_copies=3, who=creator)
        lab.await_playing(run, 2)
        refusal = ""
        try:
            if creator != "member":
                lab.api("member").post(f"/v1/runs/{run}/cancel", {})
        except ApiError as error:
            refusal = str(error)
        with Person(rig, creator) as reader:
            worker.program.freeze()  # for as long as it takes to look at the page
            answer = lab.api(who).post(f"/v1/runs/{run}/cancel", {})
            page = reader.reads(page_of(lab, run))
            worker.program.thaw()
        return Played(lab, run, refusal=refusal, answer=answer["status"], page=page)

    return cancelled


def cancelled_by_operator(rig: Rig) -> Played:
    lab = rig.lab()
    lab.worker()
    run = lab.run("endless", who="member")
    lab.await_playing(run)
    with Person(rig, "operator") as operator:
        operator.act("runs/run", "cancel_as_operator", run)
    return Played(lab, run)


def worker_lost(rig: Rig) -> Played:
    """It is killed and does not come back before the run has given up."""
    lab = rig.lab()
    worker = lab.worker()
    run = lab.run("endless", "solved", parallel_copies=2)
    lab.await_playing(run, 2)
    worker.program.kill()
    lab.await_end(run, END_SECONDS)
    lab.begin(worker)  # what is left of its desktops goes when it is started again
    return Played(lab, run)


def infrastructure_failure(rig: Rig) -> Played:
    lab = rig.lab()
    lab.worker(slots=3)
    return Played(lab, lab.run("unprepared", parallel_copies=8))


def config_rejected(rig: Rig) -> Played:
    """Its template is retired while it waits for a worker."""
    lab = rig.lab()
    run = lab.run("solved")
    version = rig.value(
        "SELECT v.id FROM desktops_templateversion v JOIN desktops_template t ON t.id = v.template_id"
        " WHERE t.workspace_id = %s",
        lab.key,
    )
    with Person(rig, "operator") as operator:
        operator.act("desktops/templateversion", "retire", version)
    return Played(lab, run)


SCENARIOS = {
    "all_tasks_done": Scenario(30, all_tasks_done),
    "verifying": Scenario(25, verifying),
    "verified_target_reached": Scenario(20, verified_target_reached),
    "budget_exceeded": Scenario(50, budget_exceeded),
    "workspace_budget_exceeded": Scenario(30, workspace_budget_exceeded),
    "time_cap_reached": Scenario(70, time_cap_reached),
    "time_cap_lowered": Scenario(70, time_cap_lowered),
    "spend_cap_lowered": Scenario(70, spend_cap_lowered),
    "caps_raised": Scenario(80, caps_raised),
    "cancelled_by_user": Scenario(12, cancelled_by("member")),
    "cancelled_by_admin": Scenario(12, cancelled_by("admin")),
    "cancelled_by_owner": Scenario(12, cancelled_by("owner", creator="admin")),
    "cancelled_by_operator": Scenario(12, cancelled_by_operator),
    "worker_lost": Scenario(135, worker_lost),
    "infrastructure_failure": Scenario(60, infrastructure_failure),
    "config_rejected": Scenario(3, config_rejected),
}


# ── the tests ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_tasks_done(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.columns == [
        ("done", "valid", "success"),
        ("done", "valid", "fail"),
        ("done", "invalid", None),
    ]
    assert played.attempts[2]["invalid_reasons"] == ["checker_error"]
    assert played.attempts[2]["checker_error"]
    assert played.statuses[:3] == ["queued", "preparing", "running"]


def test_verifying(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.statuses == ["queued", "preparing", "running", "verifying", "completed"]
    assert played.seen["seen"] == {"queued", "running", "verifying", "done"}


def test_verified_target_reached(played: Played) -> None:
    assert played.end == ("completed", "verified_target_reached")
    valid = [row for row in played.attempts if row["verifier"] == "valid"]
    assert len(valid) == 2
    assert {row["outcome"] for row in valid} == {"success", "fail"}


def test_budget_exceeded(played: Played) -> None:
    assert played.end == ("completed", "budget_exceeded")
    assert played.columns == [("error", "not_checked", None), ("cancelled", "not_checked", None)]
    assert played.attempts[0]["invalid_reasons"] == ["paid_until_reached"]


def test_workspace_budget_exceeded(played: Played) -> None:
    assert played.end == ("completed", "workspace_budget_exceeded")
    assert played.columns == [("error", "not_checked", None), ("cancelled", "not_checked", None)]


def test_time_cap_reached(played: Played) -> None:
    ended_by_its_time_cap(played)


def test_time_cap_lowered(played: Played) -> None:
    ended_by_its_time_cap(played)
    ((who, change),) = played.seen["changes"]
    assert (who, change) == ("owner", {"time_cap_minutes": 1, "time_cap_was_minutes": 30})


def ended_by_its_time_cap(played: Played) -> None:
    assert played.end == ("completed", "time_cap_reached")
    assert 60 <= took(played) < 70
    assert played.columns == [("cancelled", "not_checked", None)] * 2


def test_spend_cap_lowered(played: Played) -> None:
    assert played.seen["refused"]
    assert played.end == ("completed", "budget_exceeded")
    assert played.columns == [("error", "not_checked", None), ("cancelled", "not_checked", None)]
    assert played.attempts[0]["invalid_reasons"] == ["paid_until_reached"]
    ((who, change),) = played.seen["changes"]
    assert (who, change["spend_cap_was_usd"]) == ("owner", "5.00")
    assert spent(played) <= Decimal(change["spend_cap_usd"]) < 5


def test_caps_raised(played: Played) -> None:
    assert played.end == ("completed", "all_tasks_done")
    assert played.all_solved
    assert spent(played) > Decimal("0.30")
    assert took(played) > 60
    ((who, change),) = played.seen["changes"]
    assert who == "owner"
    assert change == {
        "spend_cap_usd": "5.00",
        "spend_cap_was_usd": "0.30",
        "time_cap_minutes": 30,
        "time_cap_was_minutes": 1,
    }


def spent(played: Played) -> Decimal:
    query = "SELECT spent FROM console_budget b JOIN runs_run r ON r.budget_id = b.id WHERE r.id = %s"
    return Decimal(played.lab.rig.value(query, played.run))


def took(played: Played) -> float:
    query = "SELECT extract(epoch FROM ended_at - started_at) FROM runs_run WHERE id = %s"
    return float(played.lab.rig.value(query, played.run))


def was_cancelled(played: Played) -> None:
    assert played.end == ("cancelled", "cancelled_by_user")
    assert played.seen["answer"] == "cancelling"
    assert "cancelling" in played.statuses
    assert "Cancelling" in played.seen["page"]
    assert "2 desktops are going away; it has ended when the last was seen to be gone" in played.seen["page"]
    assert set(played.columns) == {("cancelled", "not_checked", None)}


def test_cancelled_by_user(played: Played) -> None:
    was_cancelled(played)  # by its creator, a member


def test_cancelled_by_admin(played: Played) -> None:
    was_cancelled(played)


def test_cancelled_by_owner(played: Played) -> None:
    was_cancelled(played)
    assert "403" in played.seen["refusal"]  # the run of an admin: a member may not end it


def test_cancelled_by_operator(played: Played) -> None:
    assert played.end == ("cancelled", "cancelled_by_operator")
    assert "cancelling" in played.statuses


def test_worker_lost(played: Played) -> None:
    assert played.end == ("failed", "worker_lost")
    assert "recovering" in played.statuses
    assert set(played.columns) == {("cancelled", "not_checked", None)}


def test_infrastructure_failure(played: Played) -> None:
    assert played.end == ("failed", "infrastructure_failure"), played.columns
    ended = [row for row in played.attempts if row["status"] == "error"]
    assert len(ended) >= 6
    assert {row["tries"] for row in ended} == {3}
    assert {tuple(row["invalid_reasons"]) for row in ended} == {("setup_failed",)}


def test_config_rejected(played: Played) -> None:
    assert played.end == ("failed", "config_rejected")
    assert "basic@1" in played.detail
    assert played.columns == []
