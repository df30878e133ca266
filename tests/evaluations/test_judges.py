"""A judge is pinned, or it is refused and says what is missing."""

from __future__ import annotations

import pytest

from evaluations.judges import BadJudge, parse

DIGEST = "ab" * 32


@pytest.mark.parametrize(
    ("text", "pin"),
    [
        ("goal-region@v1", "version"),
        ("osworld@v1", "version"),
        (f"swe-tests@sha256:{DIGEST}", "code"),
        (f"upstream:osworld@sha256:{DIGEST}", "image"),
    ],
)
def test_a_pinned_judge_is_taken(text: str, pin: str) -> None:
    found = parse(text)
    assert (found.text, found.pin) == (text, pin)
    assert found.digest == (DIGEST if pin != "version" else "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("osworld", "Without a pin"),
        ("osworld@latest", "A judge is written"),
        ("osworld@v0", "A judge is written"),
        ("osworld@v2", "There is no judge osworld@v2"),
        ("osworld@sha256:abc", "A judge is written"),
        (f"osworld@sha256:{DIGEST.upper()}", "A judge is written"),
        ("upstream:osworld@v1", "pinned by its image"),
        (f"upstream:@sha256:{DIGEST}", "A judge is written"),
        (f"osworld@v1@sha256:{DIGEST}", "A judge is written"),
        ("osworld@v1\n", "A judge is written"),
        ("", "Without a pin"),
    ],
)
def test_anything_unpinned_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadJudge, match=why):
        parse(text)
