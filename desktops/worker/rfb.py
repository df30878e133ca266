"""What a viewer may say to a desktop's screen: RFB's messages, let through by kind.

The far end is a browser, and whatever checks are made there are made by whoever holds it. So a watcher's keys, pointer
and clipboard end here. Extensions are not offered to the screen either: without them nothing but the messages of RFC
6143 can follow, and an update comes only when one is asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

VERSION: Final = b"RFB 003.008\n"
NO_PASSWORD, SHARED = b"\x01", b"\x01"
SET_PIXEL_FORMAT, SET_ENCODINGS, UPDATE_REQUEST, KEY, POINTER, CUT_TEXT = 0, 2, 3, 4, 5, 6
LENGTHS: Final = {SET_PIXEL_FORMAT: 20, UPDATE_REQUEST: 10, KEY: 8, POINTER: 6}
WATCHING: Final = frozenset({SET_PIXEL_FORMAT, SET_ENCODINGS, UPDATE_REQUEST})
DRIVING: Final = WATCHING | {KEY, POINTER, CUT_TEXT}
MAX_ENCODINGS = 256
MAX_CUT_TEXT = 64 << 10  # bytes
# How pixels may come and how well, the pointer's shape, the screen's size and name. What else a viewer may be able to
# do makes it say more than the messages above.
ENCODINGS: Final = frozenset(
    {0, 1, 2, 5, 6, 7, 16, 21, -223, -224, -239, -260, -307, *range(-32, -22), *range(-256, -246)}
)


class BadMessage(Exception):
    """The viewer said what no viewer says; the connection must end."""


class Filter:
    """Feed it what the viewer sends, in pieces of any size; it gives what the screen may hear of it.

    `drives`: keys, pointer and clipboard go through. `inputs` counts them.
    """

    def __init__(self, *, drives: bool) -> None:
        self._allowed = DRIVING if drives else WATCHING
        self._rest = bytearray()
        self._handshake = [VERSION, NO_PASSWORD, SHARED]
        self.inputs = 0

    def feed(self, piece: bytes) -> bytes:
        """Raises BadMessage, and must not be used again then."""
        self._rest += piece
        return b"".join(self._whole())

    def _whole(self) -> Iterator[bytes]:
        while self._handshake and len(self._rest) >= len(self._handshake[0]):
            expected = self._handshake.pop(0)
            said = self._take(len(expected))
            # The last byte of the handshake may ask for the screen alone, which would put out everybody else.
            if self._handshake and said != expected:
                raise BadMessage("the handshake is not that of RFB 3.8 without a password")
            yield expected
        while not self._handshake and (length := self._length()) and len(self._rest) >= length:
            message = self._take(length)
            kind = message[0]
            if kind not in WATCHING:
                self.inputs += kind in self._allowed
            if kind in self._allowed:
                yield _plain(message) if kind == SET_ENCODINGS else message

    def _take(self, length: int) -> bytes:
        taken = bytes(self._rest[:length])
        del self._rest[:length]
        return taken

    def _length(self) -> int:
        """Of the message that begins the rest; 0 while that cannot be told."""
        rest = self._rest
        if not rest:
            return 0
        kind = rest[0]
        if kind in LENGTHS:
            return LENGTHS[kind]
        if kind == SET_ENCODINGS:
            if len(rest) < 4:
                return 0
            (count,) = struct.unpack_from(">H", rest, 2)
            if count > MAX_ENCODINGS:
                raise BadMessage(f"{count} encodings are more than there are")
            return 4 + 4 * int(count)
        if kind == CUT_TEXT:
            if len(rest) < 8:
                return 0
            (size,) = struct.unpack_from(">I", rest, 4)
            if size > MAX_CUT_TEXT:
                raise BadMessage(f"the clipboard takes {MAX_CUT_TEXT} bytes at most")
            return 8 + int(size)
        raise BadMessage(f"there is no message of type {kind}")


def _plain(message: bytes) -> bytes:
    """SetEncodings without the extensions."""
    wanted = struct.unpack_from(f">{(len(message) - 4) // 4}i", message, 4)
    known = [encoding for encoding in wanted if encoding in ENCODINGS]
    return struct.pack(f">BxH{len(known)}i", SET_ENCODINGS, len(known), *known)
