"""What is typed, pressed and clicked arrives as meant."""

from __future__ import annotations

import pytest

from desktops.protocol.actions import Click, DoubleClick, Drag, Key, Scroll, Type
from desktops.worker.guest_client import Guest, GuestRefused

pytestmark = pytest.mark.desktop


def editor(guest: Guest, path: str, content: str = "") -> None:
    """Mousepad on that file, focused, with a screen at rest."""
    guest.write_file(path, content.encode())
    guest.launch(["mousepad", path])
    assert guest.wait_window("mousepad", 20)
    assert guest.activate("mousepad", by_class=True)
    assert guest.settle(150, 8000)


def saved(guest: Guest, path: str) -> str:
    guest.act(Key(keys=["ctrl", "s"]), 200, 3000)
    return guest.read_file(path).decode()


@pytest.mark.parametrize(
    "text",
    [
        "plain words 0123456789",
        "a<b>c <> >< << >>",
        "~!@#$%^&*()_+-={}[]|\\:;\"'<>,.?/`",
        "ÄÖÜ ß ñ é € £ ¥ “quotes” – dash…",
        "Ελληνικά Русский עברית العربية 漢字かな 한국어 😀🎉",
        "two\nlines\tand a tab",
        "".join(chr(code) for code in range(0x4E00, 0x4E00 + 60)),
    ],
    ids=["ascii", "angles", "symbols", "latin", "scripts", "lines", "more-than-spare-keys"],
)
def test_typed_text_arrives_as_it_was_given(guest: Guest, text: str) -> None:
    editor(guest, "/home/user/scratch/typed.txt")
    guest.act(Type(text=text), 200, 5000)
    assert saved(guest, "/home/user/scratch/typed.txt") == text


def test_long_text_loses_no_character(guest: Guest) -> None:
    text = "".join(f"{number} <x> é\n" for number in range(200))
    editor(guest, "/home/user/scratch/long.txt")
    guest.act(Type(text=text), 400, 15000)
    assert saved(guest, "/home/user/scratch/long.txt") == text


def test_a_chord_and_its_repetition_are_pressed(guest: Guest) -> None:
    editor(guest, "/home/user/scratch/keys.txt", "one two three four")
    guest.act(Key(keys=["ctrl", "End"]))
    guest.act(Key(keys=["shift", "left"], times=4))
    guest.act(Key(keys=["delete"]))
    assert saved(guest, "/home/user/scratch/keys.txt") == "one two three "


def test_key_names_are_taken_in_any_case_and_unknown_ones_refused(guest: Guest) -> None:
    guest.act(Key(keys=["PageDown"]))
    guest.act(Key(keys=["ESC"]))
    with pytest.raises(GuestRefused, match="no key is called 'hyperspace'"):
        guest.act(Key(keys=["hyperspace"]))


def test_a_double_click_selects_a_word_and_two_clicks_do_not(guest: Guest) -> None:
    editor(guest, "/home/user/scratch/click.txt", "wonderful day")
    window = guest.active_window()
    assert window
    x, y = window.x + 30, window.y + 36
    guest.act(Click(x=x, y=y))
    guest.act(Click(x=x, y=y))
    guest.act(Type(text="!"))
    first = saved(guest, "/home/user/scratch/click.txt")
    assert "!" in first
    assert len(first) == len("wonderful day!")  # nothing was selected, so nothing was replaced
    guest.act(Key(keys=["ctrl", "z"]))
    guest.act(DoubleClick(x=x, y=y))
    guest.act(Type(text="fine"))
    assert saved(guest, "/home/user/scratch/click.txt") == "fine day"


def test_a_drag_selects_from_here_to_there(guest: Guest) -> None:
    editor(guest, "/home/user/scratch/drag.txt", "drag over me")
    window = guest.active_window()
    assert window
    y = window.y + 36
    guest.act(Drag(x=window.x + 2, y=y, to_x=window.x + 400, to_y=y))
    guest.act(Type(text="gone"))
    assert saved(guest, "/home/user/scratch/drag.txt") == "gone"


def test_scrolling_down_and_up_again_shows_the_same_screen(guest: Guest) -> None:
    editor(guest, "/home/user/scratch/scroll.txt", "\n".join(str(number) for number in range(300)))
    window = guest.active_window()
    assert window
    x, y = window.x + 200, window.y + 200
    before = guest.act(Scroll(x=x, y=y), 200)
    down = guest.act(Scroll(x=x, y=y, dy=5), 200)
    up = guest.act(Scroll(x=x, y=y, dy=-5), 200)
    assert down.png != before.png
    assert up.png == before.png
