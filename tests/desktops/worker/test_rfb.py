"""What a viewer may say to a screen: in whole messages, by kind, however the frames are cut."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from desktops.worker.rfb import MAX_CUT_TEXT, BadMessage, Filter

HANDSHAKE = b"RFB 003.008\n\x01\x01"
PIXELS = b"\x00" + bytes(19)
REQUEST = struct.pack(">BBHHHH", 3, 1, 0, 0, 1920, 1080)
KEY = struct.pack(">BBxxI", 4, 1, 0x61)
POINTER = struct.pack(">BBHH", 5, 1, 10, 20)
CUT = struct.pack(">BxxxI", 6, 5) + b"hello"


def encodings(*wanted: int) -> bytes:
    return struct.pack(f">BxH{len(wanted)}i", 2, len(wanted), *wanted)


def heard(*pieces: bytes, drives: bool = False) -> bytes:
    """What the screen hears after the handshake."""
    viewer = Filter(drives=drives)
    assert viewer.feed(HANDSHAKE) == HANDSHAKE
    return b"".join(viewer.feed(piece) for piece in pieces)


def test_a_watcher_asks_for_pixels_and_nothing_else_of_it_is_heard():
    said = PIXELS + encodings(7, 0) + KEY + REQUEST + POINTER + CUT + REQUEST
    assert heard(said) == PIXELS + encodings(7, 0) + REQUEST + REQUEST


def test_whoever_drives_is_heard_and_counted():
    viewer = Filter(drives=True)
    viewer.feed(HANDSHAKE)
    said = KEY + POINTER + CUT + REQUEST
    assert viewer.feed(said) == said
    assert viewer.inputs == 3


def test_a_watcher_s_keys_count_as_no_input():
    viewer = Filter(drives=False)
    viewer.feed(HANDSHAKE + KEY + POINTER)
    assert viewer.inputs == 0


@given(cuts=st.lists(st.integers(0, 120), max_size=12), drives=st.booleans())
def test_frames_may_be_cut_anywhere(cuts: list[int], drives: bool):
    said = HANDSHAKE + encodings(7, 16, -313) + KEY + REQUEST + CUT + POINTER + PIXELS
    whole = Filter(drives=drives).feed(said)
    viewer, places = Filter(drives=drives), [0, *sorted(cuts), len(said)]
    assert b"".join(viewer.feed(said[a:b]) for a, b in itertools.pairwise(places) if a <= b) == whole


def test_the_screen_is_never_taken_from_the_others():
    viewer = Filter(drives=True)
    assert viewer.feed(b"RFB 003.008\n\x01\x00") == HANDSHAKE


def test_extensions_are_not_offered():
    extended = (-258, -261, -308, -309, -312, -313, -316, -0x3F5E1A32, 0x574D5664, 7, 1, -26, -254, -239)
    assert heard(encodings(*extended)) == encodings(7, 1, -26, -254, -239)


@pytest.mark.parametrize(
    "said",
    [
        b"RFB 003.003\n",
        b"GET / HTTP/1.",
        HANDSHAKE[:12] + b"\x02",  # a password
        HANDSHAKE + b"\x01",
        HANDSHAKE + b"\x96\x01" + bytes(8),  # continuous updates
        HANDSHAKE + b"\xff" + bytes(11),  # a key by its scan code
        HANDSHAKE + struct.pack(">BxH", 2, 257),
        HANDSHAKE + struct.pack(">BxxxI", 6, MAX_CUT_TEXT + 1),
        HANDSHAKE + struct.pack(">Bxxxi", 6, -8),  # an extended clipboard
    ],
)
@pytest.mark.parametrize("drives", [True, False])
def test_what_no_viewer_says_ends_it(said: bytes, drives: bool):
    with pytest.raises(BadMessage):
        Filter(drives=drives).feed(said)


@given(st.binary(max_size=300))
def test_a_watcher_never_gets_a_key_through_whatever_it_sends(noise: bytes):
    viewer = Filter(drives=False)
    viewer.feed(HANDSHAKE)
    try:
        let_through = viewer.feed(noise)
    except BadMessage:
        return
    again = Filter(drives=False)
    again.feed(HANDSHAKE)
    assert again.feed(let_through) == let_through
    assert not let_through or let_through[0] in (0, 2, 3)
