"""What may stand in a name that people read: one line of what can be seen."""

from __future__ import annotations

import unicodedata
from typing import Final

# Characters that turn the writing direction round make one name look like another.
TURNS: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
SENTENCE: Final = "Must be one line of visible text, without control characters."


def is_one_line(name: str) -> bool:
    """No control character, line break, half of a surrogate pair or turn of direction, and something to see in it.

    An empty name is one: whether there must be a name is not asked here.
    """
    kinds = [unicodedata.category(character) for character in name]
    if TURNS.intersection(name) or {"Cc", "Cs", "Zl", "Zp"}.intersection(kinds):
        return False
    return not name or any(kind[0] not in "CZ" for kind in kinds)


def said_back(key: object) -> str:
    """A field's name as an error may repeat it: cut, and without half a surrogate pair, which JSON lets through."""
    return str(key)[:100].encode(errors="replace").decode()
