"""Saved desktops follow what their workers say, and leave when nothing needs them any longer."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.actions.workspaces import NotAllowed
from console.actor import Actor
from console.models import AuditEntry, User, Workspace
from desktops.actions import states
from desktops.models import State, Worker
from desktops.protocol.attempt import Attestation, StateSaved
from desktops.protocol.messages import HeldState
from runs.supervisor import one_pass
from tests.factories import (
    AssignmentFactory,
    ComputerFactory,
    StateFactory,
    TemplateVersionFactory,
    WorkerFactory,
    sha256,
)


@pytest.fixture
def host(workspace: Workspace) -> Worker:
    return WorkerFactory(workspace=workspace, name="bench")


def held(*rows: State | str, **facts: Any) -> list[HeldState]:
    names = [row if isinstance(row, str) else row.name for row in rows]
    return [HeldState(name=name, **{"digest": "sha256:1", "size_bytes": 1000, **facts}) for name in names]


def status(state: State) -> str:
    state.refresh_from_db()
    return state.status


def test_what_a_worker_names_and_nobody_knows_becomes_a_row(workspace: Workspace, host: Worker) -> None:
    version = TemplateVersionFactory(workspace=workspace)
    names = ("warm-1", "setup-2", "prefix-3", "its-own")
    states.reconcile(host, held(*names, image=version.digest), limit_mb=5000)
    assert states.to_forget(host) == []
    rows = {row.name: row for row in State.objects.for_workspace(workspace)}
    assert {name: row.origin for name, row in rows.items()} == {
        "warm-1": "warm",
        "setup-2": "setup",
        "prefix-3": "prefix",
    }
    assert str(rows["warm-1"]) == "Ready desktop of basic@1"
    assert rows["setup-2"].template_version == version
    assert rows["warm-1"].expires_at is None
    assert rows["prefix-3"].expires_at, "what no record tells of goes after a while"
    host.refresh_from_db()
    assert (host.states_bytes, host.states_limit_mb) == (3000, 5000)


def test_what_a_worker_no_longer_names_is_gone_unless_it_is_quite_new(host: Worker) -> None:
    old, new = StateFactory(worker=host), StateFactory(worker=host, made_at=timezone.now())
    others = StateFactory()
    states.reconcile(host, [])
    assert [status(row) for row in (old, new, others)] == ["gone", "held", "held"]


def test_what_is_found_again_is_kept_again(host: Worker) -> None:
    lost = StateFactory(worker=host, status="gone")
    states.reconcile(host, held(lost))
    assert states.to_forget(host) == []
    assert status(lost) == "held"


def test_what_a_worker_makes_anew_stays_though_it_was_let_go_once(host: Worker) -> None:
    warm = StateFactory(worker=host, origin="warm")
    states.no_longer_wanted([warm])
    states.reconcile(host, [])
    states.reconcile(host, held(warm, made_at=timezone.now()))
    one_pass()
    assert status(warm) == "held"
    assert warm.made_at > timezone.now() - timedelta(minutes=1)


def test_it_is_to_be_forgotten_until_it_is_named_no_longer(host: Worker) -> None:
    kept, row = StateFactory(worker=host), StateFactory(worker=host)
    assert states.no_longer_wanted([row]) == 1
    assert states.to_forget(host) == [row.name]
    for _ in range(2):
        states.reconcile(host, held(kept, row))
        assert states.to_forget(host) == [row.name]
    states.reconcile(host, held(kept))
    assert states.to_forget(host) == []
    assert [status(kept), status(row)] == ["held", "gone"]
    assert states.no_longer_wanted([row]) == 0


@pytest.mark.parametrize("count", [1, 40])
def test_a_list_of_any_length_takes_the_same_queries(
    host: Worker, count: int, django_assert_max_num_queries: Any
) -> None:
    known = StateFactory.create_batch(count, worker=host)
    gone = StateFactory.create_batch(count, worker=host)
    new = [f"warm-{n}" for n in range(count)]
    with django_assert_max_num_queries(7):  # two of them the savepoint's
        states.reconcile(host, held(*known, *new))
    with django_assert_max_num_queries(4):
        states.reconcile(host, held(*known, *new))
    assert {status(row) for row in gone} == {"gone"}


def saved(name: str = "prefix-1", **changes: Any) -> StateSaved:
    attested = Attestation(screenshot=sha256("screen"), processes=["xterm"], files=sha256("files"))
    fields = {
        "computer": str(uuid.uuid4()),
        "digest": f"sha256:{sha256(name)}",
        "size_bytes": 10,
        "seconds": 1,
    }
    return StateSaved(at=timezone.now(), name=name, attestation=attested, **{**fields, **changes})


def test_a_record_says_what_a_state_is(host: Worker) -> None:
    computer = ComputerFactory(assignment=AssignmentFactory(worker=host))
    states.reconcile(host, held("setup-1", "prefix-1"))
    for _ in range(2):
        row = states.state_saved(
            computer.assignment, computer, saved(parent="setup-1"), label="Run #1, task-1"
        )
    assert State.objects.count() == 2
    row.refresh_from_db()
    assert (str(row), row.computer, row.template_version) == (
        "Run #1, task-1",
        computer,
        computer.template_version,
    )
    assert row.parent == State.objects.get(name="setup-1")
    assert row.expires_at is None, "it is claimed"
    assert row.attestation["processes"] == ["xterm"]
    assert row.screenshot == sha256("screen")


def test_a_name_that_is_not_ours_is_refused(host: Worker) -> None:
    with pytest.raises(ValueError, match="cannot be named"):
        states.state_saved(AssignmentFactory(worker=host), None, saved("mine"))


def test_uses_are_counted(host: Worker) -> None:
    row, now = StateFactory(worker=host), timezone.now()
    other = StateFactory(name=row.name)  # of another worker
    for times, at in ((3, now), (1, now - timedelta(hours=1))):
        states.started_from(host.pk, row.name, times=times, at=at)
    row.refresh_from_db()
    other.refresh_from_db()
    assert (row.uses, row.used_at) == (4, now)
    assert (other.uses, other.used_at) == (0, None)


@pytest.mark.parametrize(
    "payload", [{"setup_state": "{}"}, {"state": "{}"}, {"fork": {"state": "{}"}}], ids=str
)
def test_what_a_live_desktop_needs_is_not_let_go(host: Worker, owner: User, payload: dict[str, Any]) -> None:
    row = StateFactory(worker=host)
    named = {
        key: dict.fromkeys(value, row.name) if isinstance(value, dict) else row.name
        for key, value in payload.items()
    }
    assignment = AssignmentFactory(worker=host, payload=named, status="held")
    with pytest.raises(states.StateNeeded, match="a desktop that is being played with it"):
        states.let_go(row, actor=Actor.person(owner))
    assert status(row) == "held"
    assignment.status = "ended"
    assignment.save()
    states.let_go(row, actor=Actor.person(owner))
    states.let_go(row, actor=Actor.person(owner))
    assert status(row) == "leaving"
    entry = AuditEntry.objects.get(action="state.deleted")
    assert entry.detail == {"name": row.name, "worker": "bench"}


@pytest.fixture
def by_hand(host: Worker) -> State:
    """Saved by a person, unused for a while."""
    expires = timezone.now() + timedelta(days=2)
    return StateFactory(worker=host, origin="saved", keep_days=14, expires_at=expires)


def days_left(state: State) -> int:
    state.refresh_from_db()
    assert state.expires_at
    return round((state.expires_at - timezone.now()) / timedelta(days=1))


def test_what_a_person_saves_goes_so_long_after_its_last_use(host: Worker, by_hand: State) -> None:
    computer = ComputerFactory(assignment=AssignmentFactory(worker=host))
    made = states.state_saved(computer.assignment, computer, saved("saved-1"), keep_days=30)
    assert days_left(made) == 30
    for days_ago, left in ((13, 2), (5, 9), (0, 14), (3, 14)):
        at = timezone.now() - timedelta(days=days_ago)
        states.started_from(host.pk, by_hand.name, times=1, at=at)
        assert days_left(by_hand) == left
    State.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    one_pass()
    assert status(by_hand) == "leaving"
    states.started_from(host.pk, by_hand.name, times=1, at=timezone.now())
    assert days_left(by_hand) == 0, "one that leaves does not come back"


def test_it_is_kept_longer_when_somebody_says_so(by_hand: State, member: User) -> None:
    for days, left, usual in ((5, 5, 14), (60, 60, 60)):
        states.keep(by_hand, days=days, actor=Actor.person(member))
        assert (days_left(by_hand), by_hand.keep_days) == (left, usual)
    with pytest.raises(states.NotKept, match="longer than that already"):
        states.keep(by_hand, days=30, actor=Actor.person(member))
    assert days_left(by_hand) == 60
    entries = AuditEntry.objects.filter(action="state.kept").order_by("pk")
    assert [entry.detail["keep_days"] for entry in entries] == [5, 60]
    states.no_longer_wanted([by_hand])
    with pytest.raises(states.NotKept, match="has been deleted"):
        states.keep(by_hand, days=90, actor=Actor.person(member))


def test_what_nobody_saved_by_hand_is_not_kept_for_days(host: Worker, member: User) -> None:
    with pytest.raises(states.NotKept, match="when nothing needs it"):
        states.keep(StateFactory(worker=host), days=5, actor=Actor.person(member))


def test_a_member_deletes_none(host: Worker, member: User) -> None:
    row = StateFactory(worker=host)
    with pytest.raises(NotAllowed):
        states.let_go(row, actor=Actor.person(member))


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[uuid.UUID]]:
    """States that a run still needs."""
    pks: set[uuid.UUID] = set()
    monkeypatch.setattr(states, "_keepers", [])

    def keeper(asked: Collection[State]) -> dict[uuid.UUID, str]:
        return {row.pk: "run #7, whose forks start from it" for row in asked if row.pk in pks}

    states.keep_while(keeper)
    return pks


def test_what_has_expired_goes_when_nothing_needs_it(host: Worker, kept: set[uuid.UUID], owner: User) -> None:
    past, future = (timezone.now() + timedelta(minutes=minutes) for minutes in (-1, 1))
    over, needed = StateFactory.create_batch(2, worker=host, expires_at=past)
    later, ever = StateFactory(worker=host, expires_at=future), StateFactory(worker=host)
    kept.add(needed.pk)
    with pytest.raises(states.StateNeeded, match="needed by run #7, whose forks start from it"):
        states.let_go(needed, actor=Actor.person(owner))
    one_pass()
    assert [status(row) for row in (over, needed, later, ever)] == ["leaving", "held", "held", "held"]
    kept.clear()
    one_pass()
    assert status(needed) == "leaving"


def test_what_was_let_go_and_comes_back_goes_again(host: Worker) -> None:
    row = StateFactory(worker=host)
    states.no_longer_wanted([row])
    states.reconcile(host, [])
    states.reconcile(host, held(row))
    assert status(row) == "held"
    one_pass()
    assert status(row) == "leaving"
