"""Patience: seconds of a machine that is not overloaded."""

from __future__ import annotations

import pytest

from desktops.guest import patience
from desktops.guest.patience import SLOWEST, Patience
from desktops.worker import guest_client


class Machine:
    """Its clock, and what it has to do."""

    def __init__(self) -> None:
        self.now, self.slowness = 100.0, 1.0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr(patience.time, "monotonic", lambda: made.now)
    monkeypatch.setattr(patience, "slowness", lambda: made.slowness)
    return made


def test_it_runs_out_with_the_clock_on_a_machine_with_time_to_spare(machine: Machine) -> None:
    waiting = Patience(10)
    machine.now += 9
    assert waiting.left() == 1
    machine.now += 2
    assert waiting.left() == 0


def test_it_lasts_longer_while_programs_wait_for_a_processor(machine: Machine) -> None:
    waiting = Patience(10)
    machine.slowness = 3.0
    machine.now += 27
    assert waiting.left() == 1
    machine.slowness = 1.0
    machine.now += 0.5
    assert waiting.left() == 0.5


def test_a_machine_is_never_called_faster_than_its_clock_nor_slower_than_is_waited_for() -> None:
    assert 1 <= patience.slowness() <= SLOWEST


def test_a_worker_waits_for_the_answer_of_the_most_patient_guest() -> None:
    assert guest_client.SLOWEST == SLOWEST
