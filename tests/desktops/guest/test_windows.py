"""Windows: listed, waited for, raised and closed."""

from __future__ import annotations

import pytest

from desktops.protocol.actions import Wait
from desktops.worker.guest_client import Guest, GuestWaitedInVain

pytestmark = pytest.mark.desktop


def test_a_new_window_is_listed_with_what_it_is(guest: Guest) -> None:
    pid = guest.launch(["mousepad"])
    window = guest.wait_window("Untitled", 20)
    assert window
    assert window.wm_class == "mousepad.Mousepad"
    assert window.pid == pid
    assert window.width > 100
    assert guest.wait_window("Mousepad", 5)


def test_panel_and_desktop_are_no_windows(guest: Guest) -> None:
    assert guest.windows() == []
    assert guest.active_window() is None


def test_a_window_is_activated_by_title_and_by_class(guest: Guest) -> None:
    guest.launch(["mousepad"])
    assert guest.wait_window("mousepad", 20)
    guest.launch(["xfce4-terminal"])
    assert guest.wait_window("Terminal", 20)
    assert guest.activate("untitled")
    active = guest.active_window()
    assert active
    assert active.wm_class == "mousepad.Mousepad"
    assert guest.activate("xfce4-terminal", by_class=True)
    active = guest.active_window()
    assert active
    assert active.wm_class == "xfce4-terminal.Xfce4-terminal"
    assert not guest.activate("Mouse", strict=True)
    assert guest.activate("Xfce4-terminal", by_class=True, strict=True)


def test_a_window_is_closed_and_a_missing_one_said_so(guest: Guest) -> None:
    guest.launch(["mousepad"])
    assert guest.wait_window("mousepad", 20)
    assert guest.close("mousepad", by_class=True)
    assert guest.windows() == []
    assert not guest.close("mousepad", by_class=True)


def test_waiting_for_a_window_in_vain_gives_none(guest: Guest) -> None:
    assert guest.wait_window("nobody", 0.2) is None


def test_a_window_that_does_not_come_is_told_to_who_waits_for_it(guest: Guest) -> None:
    with pytest.raises(GuestWaitedInVain, match="no window 'Solitaire' became active"):
        guest.act(Wait(window="Solitaire", seconds=0.2))
