from collections.abc import Callable

import pytest

from console.actor import Actor
from console.models import User
from runs.actions.stop import MayNotCancel, NotCancellable, cancel_run
from runs.models import Run
from runs.supervisor import one_pass
from tests.runs.paper_worker import PaperWorker

NewRun = Callable[..., Run]


def test_a_queued_run_is_cancelled_at_once(new_run: NewRun, owner: User) -> None:
    run = cancel_run(new_run(), actor=Actor.person(owner))
    assert (run.status, run.stop_reason, run.cancelled) == ("cancelled", "cancelled_by_user", 2)


def test_a_playing_run_is_cancelling_until_its_desktops_are_gone(
    new_run: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = new_run()
    one_pass()
    started = {assignment: worker.start(assignment) for assignment in worker.offered()}
    run = cancel_run(run, actor=Actor.person(owner))
    assert run.status == "cancelling"
    for assignment, computer in started.items():
        worker.stop(assignment, computer)
        worker.end(assignment, ok=False, stopped=True)
    one_pass()
    run.refresh_from_db()
    assert (run.status, run.cancelled) == ("cancelled", 2)
    assert set(run.attempts.values_list("status", flat=True)) == {"cancelled"}


def test_an_attempt_that_waited_to_be_tried_again_says_that_it_was_cancelled(
    new_run: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = new_run()
    one_pass()
    broken, other = worker.offered()
    worker.break_down(broken)
    cancel_run(run, actor=Actor.person(owner))
    worker.end(other, ok=False, stopped=True)
    one_pass()
    run.refresh_from_db()
    assert (run.status, run.cancelled) == ("cancelled", 2)
    told = run.events.filter(kind="attempt_ended").order_by("attempt_number")
    assert [(event.attempt_number, event.data["status"]) for event in told] == [
        (1, "cancelled"),
        (2, "cancelled"),
    ]


def test_cancelling_twice_changes_nothing(new_run: NewRun, worker: PaperWorker, owner: User) -> None:
    run = new_run()
    one_pass()
    first = cancel_run(run, actor=Actor.person(owner)).last_seq
    assert cancel_run(run, actor=Actor.person(owner)).last_seq == first


def test_a_run_that_has_ended_cannot_be_cancelled(new_run: NewRun, owner: User) -> None:
    run = cancel_run(new_run(), actor=Actor.person(owner))
    with pytest.raises(NotCancellable):
        cancel_run(run, actor=Actor.person(owner))


def test_a_run_that_is_ending_for_another_reason_keeps_that_reason(
    new_run: NewRun, worker: PaperWorker, owner: User
) -> None:
    run = new_run(stop_after_valid=1)
    one_pass()
    first, second = worker.offered()
    worker.play(first, reward=1.0)
    computer = worker.start(second)
    one_pass()
    with pytest.raises(NotCancellable, match="ending already"):
        cancel_run(run, actor=Actor.person(owner))
    worker.stop(second, computer)
    worker.end(second, ok=False, stopped=True)
    one_pass()
    run.refresh_from_db()
    assert (run.status, run.stop_reason) == ("completed", "verified_target_reached")


def test_a_member_may_cancel_only_their_own_run(new_run: NewRun, member: User, owner: User) -> None:
    with pytest.raises(MayNotCancel):
        cancel_run(new_run(actor=owner), actor=Actor.person(member))
    assert cancel_run(new_run(actor=member), actor=Actor.person(member)).status == "cancelled"


def test_an_admin_may_cancel_any_run(new_run: NewRun, admin: User) -> None:
    assert cancel_run(new_run(), actor=Actor.person(admin)).status == "cancelled"


def test_the_operator_is_named_in_the_reason(new_run: NewRun, outsider: User) -> None:
    assert cancel_run(new_run(), actor=Actor.operator(outsider)).stop_reason == "cancelled_by_operator"


def test_an_outsider_may_not(new_run: NewRun, outsider: User) -> None:
    with pytest.raises(MayNotCancel):
        cancel_run(new_run(), actor=Actor.person(outsider))
