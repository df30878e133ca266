"""Which fault is whose: the classifier, case by case."""

from __future__ import annotations

import pytest

from desktops.worker.computer import StartFailed
from desktops.worker.faults import Ending, NotReady, Phase, classify
from desktops.worker.guest_client import GuestRefused, GuestUnreachable
from desktops.worker.spool import SpoolFull
from desktops.worker.task import BadTask

GONE, THERE, NONE_YET = False, True, None


@pytest.mark.parametrize(
    ("error", "phase", "alive", "reason"),
    [
        (StartFailed("no image"), Phase.STARTING, NONE_YET, "desktop_start_failed"),
        (KeyError("x"), Phase.STARTING, NONE_YET, "desktop_start_failed"),
        (GuestUnreachable("x"), Phase.SETUP, GONE, "desktop_lost"),
        (GuestUnreachable("x"), Phase.SETUP, THERE, "guest_unreachable"),
        (RuntimeError("no such step"), Phase.SETUP, THERE, "setup_failed"),
        (NotReady("no window manager"), Phase.GATES, THERE, "not_ready"),
        (GuestUnreachable("x"), Phase.GATES, THERE, "guest_unreachable"),
        (GuestUnreachable("x"), Phase.PLAYING, GONE, "desktop_lost"),
        (GuestUnreachable("x"), Phase.PLAYING, THERE, "guest_unreachable"),
        (GuestRefused("x"), Phase.PLAYING, THERE, "guest_unreachable"),
        (ZeroDivisionError(), Phase.PLAYING, THERE, "worker_fault"),
        (GuestUnreachable("x"), Phase.VERIFYING, GONE, "desktop_lost"),
        (GuestUnreachable("x"), Phase.VERIFYING, THERE, "checker_error"),
        (ValueError("bad metric"), Phase.VERIFYING, THERE, "checker_error"),
        (SpoolFull("full"), Phase.VERIFYING, THERE, "upload_failed"),
        (SpoolFull("full"), Phase.STARTING, NONE_YET, "upload_failed"),
        (BadTask("no evaluator"), Phase.STARTING, NONE_YET, "setup_failed"),
    ],
)
def test_each_fault_has_its_reason(error, phase, alive, reason):
    fault = classify(error, phase=phase, desktop_alive=alive, ending=None)
    assert fault.reason == reason
    assert fault.detail
    assert bool(fault.checker_error) == (reason == "checker_error")


def test_what_was_asked_for_comes_before_what_broke_of_it():
    ending = Ending("paid until noon", "paid_until_reached")
    fault = classify(GuestUnreachable("x"), phase=Phase.PLAYING, desktop_alive=False, ending=ending)
    assert (fault.reason, fault.detail) == ("paid_until_reached", "paid until noon")


def test_a_stop_by_the_console_is_nobodys_fault():
    fault = classify(Ending("cancelled"), phase=Phase.SETUP, desktop_alive=True, ending=None)
    assert fault.reason is None
