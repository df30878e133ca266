"""The host takes each lease once, holds it until it is acknowledged, and lets nothing outlive its money."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from desktops.protocol import messages
from desktops.protocol.attempt import AttemptEnded, ComputerStarted
from desktops.worker import host
from desktops.worker.blobs import BlobStore
from desktops.worker.config import Config
from desktops.worker.engine.base import EngineFacts, SweepReport
from desktops.worker.host import Host
from desktops.worker.recorder import Recorder
from desktops.worker.spool import Spool
from desktops.worker.states import States

FACTS = EngineFacts("fake", "1", "none", False, "it is a fake", slots=2, cpus=2, memory_mb=4096)


class Sweeper:
    """The part of an engine that the host itself talks to."""

    def __init__(self) -> None:
        self.kept: list[set[str]] = []
        self.swept = threading.Event()
        self.found: list[str] = []
        self.unstarted: list[str] = []

    def sweep(self, keep):
        self.kept.append({computer for computer in ("mine", "c") if computer in keep})
        self.swept.set()
        return SweepReport(datetime.now(UTC), self.found, [], [], unstarted=self.unstarted)

    def images(self):
        return []


class Job:
    """Work that runs until it is told to end."""

    def __init__(self, payload, recorder: Recorder, paid_until: datetime) -> None:
        self.payload, self.recorder = payload, recorder
        self.paid_until = paid_until
        self.computers = {payload.get("computer", "c")}
        self.image = ""
        self.started, self.told, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.endings: list[tuple[str, str | None]] = []

    def run(self):
        self.started.set()
        assert self.told.wait(20)
        now = datetime.now(UTC)
        self.recorder.record(AttemptEnded(at=now, ok=False, detail=self.endings[0][0]))
        self.ended.set()

    def end(self, detail, reason=None):
        self.endings.append((detail, reason))
        self.told.set()

    def extend(self, paid_until):
        self.paid_until = paid_until


class House:
    def __init__(self, tmp_path) -> None:
        self.tmp_path = tmp_path
        self.jobs: list[Job] = []
        self.spool = Spool(tmp_path / "spool", ballast=0)
        self.engine = Sweeper()
        config = Config("http://x", "t", "w", tmp_path, "fake", slots=2)
        self.host = Host(
            config=config,
            engine=self.engine,  # type: ignore[arg-type]
            facts=FACTS,
            spool=self.spool,
            blobs=BlobStore(tmp_path / "blobs"),
            states=States(self.engine, tmp_path / "states"),  # type: ignore[arg-type]
            kinds={"attempt": self.build, "prefix": self.build},
        )

    def build(self, payload, recorder, paid_until, closing):
        messages.Held.model_validate(payload.get("must_be_held", {"assignment": "x", "epoch": 1}))
        self.jobs.append(Job(payload, recorder, paid_until))
        return self.jobs[-1]

    def offer(self, assignment="a", epoch=1, seconds=300.0, kind="attempt", **payload):
        paid = datetime.now(UTC) + timedelta(seconds=seconds)
        self.host.on_offer(
            messages.Offer(assignment=assignment, epoch=epoch, kind=kind, payload=payload, paid_until=paid)
        )
        return paid

    def held(self):
        return [(item.assignment, item.epoch) for item in self.host.held()]

    def records(self, assignment="a"):
        return [item.record for item in self.spool.after(0, limit=100) if item.assignment == assignment]


def until(holds: Callable[[], object], seconds: float = 10) -> None:
    ready, pause = threading.Event(), 0.01
    for _ in range(int(seconds / pause)):
        if holds():
            return
        ready.wait(pause)  # between two looks
    raise AssertionError("it did not come true")


@pytest.fixture
def house(tmp_path, monkeypatch):
    monkeypatch.setattr(host, "STOP_EARLY", timedelta(seconds=1))
    house = House(tmp_path)
    house.host.start()
    yield house
    house.host.close()
    house.spool.close()


def test_it_cannot_fork_where_not_one_saved_desktop_has_room(house, tmp_path):
    house.host._facts = replace(FACTS, can_fork=True, cannot_fork_because="")
    assert house.host.hello().can_fork
    house.host._states = States(house.engine, tmp_path / "small", limit_mb=0)
    hello = house.host.hello()
    assert not hello.can_fork
    assert hello.cannot_fork_because == "Saved desktops may take 0 MB here, and one needs 256."


def test_the_same_offer_twice_is_taken_once(house):
    house.offer()
    house.offer()
    until(lambda: house.jobs)
    assert house.held() == [("a", 1)]
    assert len(house.jobs) == 1


def test_an_offer_that_has_ended_is_not_taken_again(house):
    house.offer()
    until(lambda: house.jobs)
    house.jobs[0].end("done")
    until(lambda: house.records())
    house.spool.acknowledge(house.spool.last)
    until(lambda: house.held() == [])
    house.offer()
    assert house.held() == []


def test_a_newer_lease_replaces_the_older_once_that_has_let_go(house):
    house.offer(epoch=1)
    until(lambda: house.jobs and house.jobs[0].started.is_set())
    house.offer(epoch=2)
    until(lambda: len(house.jobs) == 2)
    assert house.jobs[0].ended.is_set()
    assert house.held() == [("a", 2)]
    house.offer(epoch=1)
    assert house.held() == [("a", 2)]


def test_it_is_held_until_its_last_record_is_acknowledged(house):
    house.offer()
    until(lambda: house.jobs)
    house.jobs[0].end("done")
    until(lambda: house.records())
    assert house.held() == [("a", 1)]
    house.spool.acknowledge(house.spool.last)
    until(lambda: house.held() == [])


def test_no_more_is_taken_than_there_are_slots(house):
    for name in "abc":
        house.offer(name)
    until(lambda: len(house.jobs) == 2)
    assert house.held() == [("a", 1), ("b", 1)]
    house.jobs[0].end("done")
    until(lambda: house.records("a"))
    until(lambda: house.jobs[0].ended.is_set())
    until(lambda: house.host._busy() == 1)
    house.offer("c")
    until(lambda: len(house.jobs) == 3)


def test_work_ends_before_its_money_does_without_a_console(house):
    paid = house.offer(seconds=1.5)
    until(lambda: house.jobs and house.jobs[0].endings)
    assert datetime.now(UTC) < paid
    assert house.jobs[0].endings[0][1] == "paid_until_reached"


def test_an_extension_moves_the_end(house):
    house.offer(seconds=1.6)
    until(lambda: house.jobs and house.jobs[0].started.is_set())
    later = datetime.now(UTC) + timedelta(seconds=100)
    house.host.on_extend(messages.Extend(assignment="a", epoch=1, paid_until=later))
    assert not house.jobs[0].told.wait(1.2)
    assert house.jobs[0].paid_until == later
    house.host.on_extend(messages.Extend(assignment="a", epoch=7, paid_until=datetime.now(UTC)))
    assert house.jobs[0].paid_until == later


def test_stop_names_an_invalid_reason_only_if_it_is_one(house):
    house.offer("a")
    house.offer("b")
    until(lambda: len(house.jobs) == 2)
    house.host.on_stop(messages.Stop(assignment="a", epoch=1, reason="cancelled_by_user"))
    house.host.on_stop(messages.Stop(assignment="b", epoch=1, reason="human_intervened"))
    house.host.on_stop(messages.Stop(assignment="b", epoch=9, reason="too late"))
    until(lambda: all(job.endings for job in house.jobs))
    assert sorted(str(job.endings[0][1]) for job in house.jobs) == ["None", "human_intervened"]


def test_a_stop_for_what_was_never_taken_is_answered(house):
    house.host.on_stop(messages.Stop(assignment="a", epoch=1, reason="cancelled_by_user"))
    assert '"stopped":true' in house.records()[0]
    assert house.held() == [("a", 1)]
    house.offer()
    assert house.jobs == []
    house.spool.acknowledge(house.spool.last)
    assert house.held() == []
    house.host.on_stop(messages.Stop(assignment="a", epoch=1, reason="cancelled_by_user"))
    assert house.records() == []


def test_a_stop_that_comes_right_after_its_offer_is_not_lost(house):
    house.offer()
    house.host.on_stop(messages.Stop(assignment="a", epoch=1, reason="cancelled_by_user"))
    until(lambda: house.jobs and house.jobs[0].endings)


def test_a_lease_taken_back_ends_the_work_but_not_a_newer_lease(house):
    house.offer(epoch=2)
    until(lambda: house.jobs)
    house.host.on_stale("a", 1)
    assert not house.jobs[0].told.is_set()
    house.host.on_stale("a", 2)
    assert house.jobs[0].told.wait(5)


def test_a_payload_that_cannot_be_read_ends_at_once_with_its_field(house):
    house.offer(must_be_held={"epoch": 1})
    until(lambda: house.records())
    assert "assignment" in house.records()[0]
    assert '"worker_fault"' in house.records()[0]


def test_work_that_breaks_is_swept_and_ended_all_the_same(house, monkeypatch):
    def breaks(self):
        self.started.set()
        raise KeyError("surprise")

    monkeypatch.setattr(Job, "run", breaks)
    house.offer()
    until(lambda: house.records())
    assert '"worker_fault"' in house.records()[-1]
    assert house.engine.kept[-1] == set()


def test_an_unknown_kind_is_not_taken(house):
    house.offer(kind="dance")
    house.host.on_stop(messages.Stop(assignment="a", epoch=1, kind="dance", reason="enough"))
    assert house.held() == []
    assert house.records() == []


def test_a_prefix_that_ends_without_a_word_has_the_last_record_of_a_prefix(house, monkeypatch):
    house.host.on_stop(messages.Stop(assignment="a", epoch=1, kind="prefix", reason="cancelled_by_user"))
    house.offer("b", kind="prefix", must_be_held={"epoch": 1})
    monkeypatch.delattr(Job, "run")
    house.offer("c", kind="prefix")
    until(lambda: all(house.records(name) for name in "abc"))
    ends = {name: json.loads(house.records(name)[-1]) for name in "abc"}
    assert {end["kind"] for end in ends.values()} == {"prefix_ended"}
    assert ends["a"]["stopped"]
    assert ends["b"]["invalid_reasons"] == ends["c"]["invalid_reasons"] == ["worker_fault"]


def test_a_sweep_leaves_the_desktops_of_running_work_alone(house):
    house.offer(computer="mine")
    until(lambda: house.jobs and house.jobs[0].started.is_set())
    house.host._sweep()
    assert house.engine.kept[-1] == {"mine"}
    assert house.host.heartbeat().swept_at is not None


def test_it_sweeps_as_soon_as_the_last_work_has_ended(house):
    house.offer()
    until(lambda: house.jobs and house.jobs[0].started.is_set())
    house.host.start()
    before = house.host.heartbeat().swept_at
    house.host.on_stop(messages.Stop(assignment="a", epoch=1, reason="enough"))
    until(lambda: house.host.heartbeat().swept_at > before)
    assert house.engine.kept[-1] == set()


def test_a_shut_down_ends_everything_and_sweeps(house):
    house.offer()
    until(lambda: house.jobs and house.jobs[0].started.is_set())
    house.host.close()
    assert house.jobs[0].endings[0][1] == "worker_stopped"
    assert house.engine.kept[-1] == set()


def test_a_worker_that_is_shut_down_says_so_and_turns_down_what_is_still_offered(house):
    said = []
    house.host.on_change = lambda: said.append(house.host.heartbeat().leaving)
    assert not house.host.heartbeat().leaving
    house.host.close()
    assert said == [True]
    house.offer("b")
    assert house.jobs == []
    assert '"invalid_reasons":["worker_stopped"]' in house.records("b")[-1]


def test_what_a_killed_worker_left_is_ended_and_paid_no_longer_than_reserved(tmp_path):
    spool = Spool(tmp_path / "spool", ballast=0)
    paid = datetime.now(UTC) - timedelta(minutes=5)
    spool.take("a", 1, "attempt", paid)
    recorder = Recorder(spool, BlobStore(tmp_path / "blobs"), assignment="a", epoch=1)
    recorder.record(ComputerStarted(at=paid - timedelta(minutes=1), computer="c", engine="fake"))
    spool.close()
    house = House(tmp_path)
    house.host.start()
    kinds = [record.split('"kind":"')[1].split('"')[0] for record in house.records()]
    assert sorted(kinds) == ["attempt_ended", "computer_started", "computer_stopped"]
    assert kinds[-1] == "attempt_ended"
    stopped = next(record for record in house.records() if "computer_stopped" in record)
    assert paid.strftime("%Y-%m-%dT%H:%M:%S") in stopped
    assert house.held() == [("a", 1)]
    house.host.close()
    house.spool.close()


def test_a_prefix_that_a_killed_worker_left_ends_as_a_prefix(tmp_path):
    house = House(tmp_path)
    house.spool.take("a", 1, "prefix", datetime.now(UTC))
    house.host.start()
    (ended,) = map(json.loads, house.records())
    assert (ended["kind"], ended["invalid_reasons"]) == ("prefix_ended", ["worker_stopped"])
    house.host.close()
    house.spool.close()


def test_a_desktop_that_a_killed_worker_had_just_made_is_paid_for_too(tmp_path):
    house = House(tmp_path)
    began = datetime.now(UTC) - timedelta(seconds=5)
    house.spool.take("a", 1, "attempt", began + timedelta(seconds=60))
    house.spool.intend("a", 1, "made", began)
    house.spool.intend("a", 1, "not made", began)
    house.spool.intend("a", 1, "not started", began)
    house.engine.found, house.engine.unstarted = ["made", "not started"], ["not started"]
    house.host.start()
    kinds = [json.loads(record)["kind"] for record in house.records()]
    assert kinds == ["computer_started", "computer_stopped", "attempt_ended"]
    assert datetime.fromisoformat(json.loads(house.records()[0])["at"]) == began
    assert house.spool.intended("a", 1) == []
    house.host.close()
    house.spool.close()
