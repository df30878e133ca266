"""Screenshots, and waiting for the screen to come to rest."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from desktops.guest.patience import SLOWEST
from desktops.protocol.actions import Done, Fail, Move, Wait
from desktops.worker.guest_client import Guest

pytestmark = pytest.mark.desktop

# Its window has a title at once; it computes for three seconds, drawing nothing, before it paints itself red.
SLOW_STARTER = """
import time
from Xlib import X
from Xlib.display import Display

display = Display()
screen = display.screen()
window = screen.root.create_window(300, 300, 400, 300, 0, screen.root_depth, event_mask=X.ExposureMask)
window.set_wm_name("Slow starter")
window.map()
display.sync()
end = time.monotonic() + 3
while time.monotonic() < end:
    pass
window.change_attributes(background_pixel=0xFF0000)
window.clear_area()
display.sync()
time.sleep(600)
"""


def test_a_screenshot_is_the_whole_screen_in_its_colours(guest: Guest) -> None:
    picture = Image.open(io.BytesIO(guest.screenshot()))
    assert (picture.format, picture.size, picture.mode) == ("PNG", (1920, 1080), "RGB")
    assert picture.getpixel((1000, 500)) == (0x2F, 0x48, 0x58)  # the wallpaper, red first


def test_an_action_answers_with_the_screen_after_it(guest: Guest) -> None:
    look = guest.act(Move(x=10, y=10), 40, 1000)
    assert look.settled
    assert look.settle_ms >= 40
    assert look.png.startswith(b"\x89PNG")


def test_a_screen_that_keeps_changing_does_not_settle_and_the_wait_is_bounded(guest: Guest) -> None:
    guest.launch(["xfce4-terminal", "-x", "sh", "-c", "while :; do date +%N; sleep 0.02; done"])
    assert guest.wait_window("terminal", 20)
    settled = guest.settle(300, 900)
    assert not settled
    assert 850 <= settled.settle_ms < 900 * SLOWEST + 500


def test_a_change_after_a_pause_is_waited_for(guest: Guest) -> None:
    guest.launch("sleep 0.15; xfce4-terminal")
    look = guest.act(Wait(seconds=15, window="Terminal"), 200, 5000)
    assert look.settled
    assert "Terminal" in look.active_window


def test_a_window_that_is_waited_for_has_loaded_what_it_shows(guest: Guest) -> None:
    guest.launch(["python3", "-c", SLOW_STARTER])
    look = guest.act(Wait(seconds=30, window="Slow starter"), 120, 3000)
    guest.run("pkill -f 'Slow starter'")
    assert look.active_window == "Slow starter"
    colours = Image.open(io.BytesIO(look.png)).getcolors(1 << 21)
    assert colours is not None
    assert (255, 0, 0) in [colour for _, colour in colours]


def test_done_and_fail_touch_nothing(guest: Guest) -> None:
    before = guest.screenshot()
    for action in (Done(), Fail()):
        look = guest.act(action)
        assert look.settled
        assert look.settle_ms == 0
        assert look.png == before
