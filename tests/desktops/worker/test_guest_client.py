"""What a desktop's client keeps open, and for how long."""

from __future__ import annotations

import threading

import pytest

from desktops.worker.engine.base import DeskSpec
from desktops.worker.guest_client import Guest, GuestUnreachable
from desktops.worker.testing_desktop import FakeDesk


def test_a_call_that_outlasts_its_desktops_end_leaves_no_connection_open() -> None:
    asked, answer = threading.Event(), threading.Event()

    def slowly(desk: FakeDesk, path: str) -> None:
        asked.set()
        answer.wait(10)

    guest = Guest(FakeDesk(DeskSpec(computer="c" * 36, image="i"), slowly).connect)
    call = threading.Thread(target=guest.keepalive)
    call.start()
    assert asked.wait(10)
    guest.end()
    answer.set()
    call.join(10)
    assert not guest._idle
    with pytest.raises(GuestUnreachable, match="has ended"):
        guest.keepalive()
