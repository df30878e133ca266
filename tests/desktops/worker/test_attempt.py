"""One attempt on a fake desktop: its records from first to last, and what each kind of fault makes of it."""

from __future__ import annotations

import json
import threading
import uuid
from datetime import UTC, datetime, timedelta

from desktops.worker.computer import Computer
from desktops.worker.engine.base import DeskSpec

from .orders import TASK, TEMPLATE
from .table import kinds, one

GOOD = ["computer_started", "computer_ready", "setup_done", "step", "step", "verifying", "verdict"]


def test_a_right_recipe_is_a_success(table):
    records = table.play()
    assert kinds(records) == [*GOOD, "computer_stopped", "attempt_ended"]
    verdict, ended = records[6], records[-1]
    assert verdict.reward == 1
    assert verdict.evidence[0].found == "hello"
    assert len(verdict.checker_digest) == 64
    assert (ended.ok, ended.steps, ended.stopped, ended.invalid_reasons) == (True, 2, False, [])
    assert records[-2].reason == "finished"


def test_a_wrong_recipe_is_an_honest_zero(table):
    records = table.play(recipe=[{"action": "type", "text": "nonsense"}])
    assert next(record for record in records if record.kind == "verdict").reward == 0
    assert records[-1].ok


def test_steps_carry_their_action_screen_and_times(table):
    first, second = (record for record in table.play(prefix_steps=1) if record.kind == "step")
    assert (first.number, first.prefix, first.action.action) == (1, True, "type")
    assert (second.number, second.prefix, second.action.action) == (2, False, "done")
    assert first.screenshot != second.screenshot
    assert (first.act_ms, first.settle_ms, first.settled, first.active_window) == (1.0, 2.0, True, "Fake")


def test_it_ends_at_its_last_step(table):
    records = table.play(recipe=[{"action": "move", "x": 1, "y": 1}] * 9, max_steps=3)
    assert kinds(records).count("step") == 3
    assert records[-1].steps == 3
    assert records[-1].ok


def test_a_template_this_worker_lacks_cannot_be_started(table):
    records = table.play(template={"name": "office", "version": 1, "digest": "sha256:" + "1" * 64})
    assert kinds(records) == ["attempt_ended"]
    assert records[-1].invalid_reasons == ["desktop_start_failed"]
    assert "no image" in records[-1].detail


def test_a_desktop_killed_while_playing_is_lost_and_never_a_fail(table):
    table.engine.on_call = lambda desk, path: desk.die() if path == "/act" else None
    records = table.play()
    assert records[-1].invalid_reasons == ["desktop_lost"]
    assert not records[-1].ok
    assert "verdict" not in kinds(records)


def test_a_desktop_killed_while_it_is_checked_is_lost_and_no_checker_error(table):
    table.engine.on_call = lambda desk, path: desk.die() if path == "/run" else None
    records = table.play()
    assert records[-1].invalid_reasons == ["desktop_lost"]
    assert records[-1].checker_error == ""


def test_a_guest_that_falls_silent_is_unreachable(table):
    table.engine.on_call = lambda desk, path: desk.fall_silent() if path == "/act" else None
    assert table.play()[-1].invalid_reasons == ["guest_unreachable"]


def test_a_recipe_that_waits_for_a_window_in_vain_is_not_played_on_and_is_no_fail(table):
    table.engine.on_call = lambda desk, path: desk.show_no_window()
    recipe = [{"action": "wait", "window": "Terminal", "seconds": 20}, {"action": "type", "text": "hello"}]
    records = table.play(recipe=recipe)
    steps = [record for record in records if record.kind == "step"]
    assert [step.error for step in steps] == ["no window became active"]
    assert records[-1].invalid_reasons == ["not_ready"]
    assert records[-1].detail == "step 1: no window became active"
    assert "verdict" not in kinds(records)


def restless(table, milliseconds):
    def never_rests(desk, path):
        desk.restless_ms = milliseconds

    table.engine.on_call = never_rests


WRONG = [{"action": "type", "text": "help"}, {"action": "done"}]


def test_what_fails_on_a_machine_that_could_not_keep_up_is_no_fail(table):
    restless(table, 9000)
    records = table.play(recipe=WRONG)
    assert records[-1].invalid_reasons == ["not_ready"]
    assert (
        records[-1].detail
        == "its machine had too much to do: after the setup the screen did not come to rest"
    )
    assert "verdict" not in kinds(records)


def test_who_does_nothing_fails_on_any_machine(table):
    restless(table, 9000)
    assert one(table.play(recipe=[{"action": "done"}]), "verdict").reward == 0


def test_what_succeeds_on_a_machine_that_could_not_keep_up_has_succeeded(table):
    restless(table, 9000)
    assert one(table.play(), "verdict").reward == 1


def test_a_screen_that_never_rests_is_no_excuse_on_a_machine_that_keeps_up(table):
    restless(table, 3001)
    assert one(table.play(recipe=WRONG), "verdict").reward == 0


def test_a_guest_that_falls_silent_before_the_checker_is_a_checker_error(table):
    table.engine.on_call = lambda desk, path: desk.fall_silent() if path == "/run" else None
    ended = table.play()[-1]
    assert ended.invalid_reasons == ["checker_error"]
    assert ended.checker_error


def test_a_checker_that_breaks_is_no_verdict(table):
    task = TASK | {"evaluator": {"func": "no_such_metric", "result": TASK["evaluator"]["result"]}}
    records = table.play(task=task)
    assert records[-1].invalid_reasons == ["checker_error"]
    assert "no_such_metric" in records[-1].checker_error
    assert "verdict" not in kinds(records)


def test_a_setup_step_that_fails_is_named(table):
    task = TASK | {"config": [{"type": "no_such_step", "parameters": {}}]}
    ended = table.play(task=task)[-1]
    assert ended.invalid_reasons == ["setup_failed"]
    assert "no_such_step" in ended.detail


def test_a_task_that_cannot_be_read_is_a_failed_setup(table):
    ended = table.play(task={"id": "x"})[-1]
    assert ended.invalid_reasons == ["setup_failed"]


def test_a_verdict_stays_when_the_desktop_dies_after_it(table):
    table.spool.on_append(
        lambda: table.engine.made[0].die() if "verdict" in table.spool.after(0, limit=99)[-1].record else None
    )
    table.engine.refuse_removals = 1
    records = table.play()
    assert records[-1].ok
    assert records[-1].invalid_reasons == []
    assert "the engine is busy" in records[-1].detail


def test_a_stop_ends_it_at_once_and_is_nobodys_fault(table):
    blocked = threading.Event()
    table.engine.on_call = lambda desk, path: blocked.wait(10) if path == "/act" else None
    playing = table.made()
    thread = threading.Thread(target=playing.run)
    thread.start()
    while not table.engine.made:
        blocked.wait(0.01)
    playing.end("stopped by the console: cancelled_by_user")
    thread.join(8)
    blocked.set()
    assert not thread.is_alive()
    ended = table.records()[-1]
    assert (ended.ok, ended.stopped, ended.invalid_reasons) == (False, True, [])
    assert "cancelled_by_user" in ended.detail


def test_a_stop_may_come_while_the_desktop_is_made_ready(table, monkeypatch):
    class StoppedFirst(threading.Thread):
        def start(self):
            if self.name.startswith("keepalive"):
                computer.stop()
            super().start()

    computer = Computer(table.engine, DeskSpec(computer=str(uuid.uuid4()), image=TEMPLATE["digest"]))
    monkeypatch.setattr(threading, "Thread", StoppedFirst)
    computer.start()
    assert computer.stopped_at is not None
    assert table.engine.list_owned() == []


def test_money_that_runs_out_is_its_reason(table):
    playing = table.made()
    table.engine.on_call = lambda desk, path: (
        playing.end("paid until then", "paid_until_reached") if path == "/act" else None
    )
    playing.run()
    ended = table.records()[-1]
    assert (ended.stopped, ended.invalid_reasons) == (False, ["paid_until_reached"])


def test_what_is_ended_before_it_began_starts_no_desktop(table):
    playing = table.made()
    playing.end("stopped by the console: cancelled_by_user")
    playing.run()
    assert table.engine.made == []
    assert kinds(table.records()) == ["attempt_ended"]


def test_an_extension_reaches_the_desktops_own_watchdog(table):
    later = datetime.now(UTC) + timedelta(hours=1)
    playing = table.made()
    told = threading.Event()

    def hear(desk, path):
        if path == "/act" and not told.is_set():
            playing.extend(later)
            told.wait(5)
        if path == "/paid_until":
            told.set()

    table.engine.on_call = hear
    playing.run()
    assert told.is_set()
    assert table.engine.made[0].paid_until == later.timestamp()


def test_a_desktop_that_cannot_be_removed_is_removed_again_until_it_is_gone(table):
    table.engine.refuse_removals = 2
    assert table.play()[-1].ok


def test_an_end_that_cannot_be_written_is_left_for_the_next_start(table):
    table.engine.refuse_removals = 100
    table.closing.set()
    table.made().run()
    assert [item.ended for item in table.spool.taken()] == [None]
    assert len(table.spool.computers(table.taken[0], 1)) == 1
    assert "attempt_ended" not in [json.loads(item.record)["kind"] for item in table.spool.after(0, limit=99)]
    table.engine.refuse_removals = 0
    table.engine.sweep([])


def test_a_full_disk_ends_it_invalid_and_the_ending_is_still_written(table, monkeypatch):
    from desktops.worker.spool import SpoolFull

    real = table.spool.append

    def full_at_steps(assignment, epoch, record, **rest):
        if record["kind"] == "step":
            raise SpoolFull("the disk is full")
        return real(assignment, epoch, record, **rest)

    monkeypatch.setattr(table.spool, "append", full_at_steps)
    ended = table.play()[-1]
    assert ended.invalid_reasons == ["upload_failed"]
    assert "full" in ended.detail
