"""What a judge is called: always pinned, to a version of ours, to code by its digest, or to an image by its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

GRAMMAR: Final = re.compile(
    r"(?P<upstream>upstream:)?(?P<name>[a-z0-9][a-z0-9._-]{0,62})"
    r"@(?:v(?P<version>[1-9][0-9]{0,5})|sha256:(?P<digest>[0-9a-f]{64}))"
)
# What the console itself has under a version.
BUILT_IN: Final = ("goal-region@v1", "osworld@v1")
FORMS: Final = "name@v1, name@sha256:<64 hex digits> or upstream:name@sha256:<64 hex digits>"

# version: the name stands for what this console ships under it. code: exactly the code of that digest judges.
# image: the environment's own reward, as the image of that digest gives it.
Pin = Literal["version", "code", "image"]


class BadJudge(ValueError):
    """The name is no judge's, or pins nothing."""


@dataclass(frozen=True)
class Judge:
    """`text` is the whole string, which reports group by; `digest` is empty where a version is the pin."""

    text: str
    name: str
    pin: Pin
    version: int | None = None
    digest: str = ""


def parse(text: str) -> Judge:
    """Raises BadJudge, which says what is missing."""
    found = GRAMMAR.fullmatch(text)
    if found is None:
        pinned = "" if "@" in text else " Without a pin, its verdicts could change under the same name."
        raise BadJudge(f"A judge is written {FORMS}.{pinned}")
    name, version, digest = found["name"], found["version"], found["digest"] or ""
    if found["upstream"]:
        if not digest:
            raise BadJudge(
                "An environment's own reward is pinned by its image: upstream:name@sha256:<64 hex digits>."
            )
        return Judge(text, name, "image", digest=digest)
    if digest:
        return Judge(text, name, "code", digest=digest)
    if text not in BUILT_IN:
        raise BadJudge(
            f"There is no judge {text} here. Those that come with the console: {', '.join(BUILT_IN)}."
        )
    return Judge(text, name, "version", version=int(version))
