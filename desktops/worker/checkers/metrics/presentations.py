"""Metrics on presentations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from desktops.worker.checkers import readers

from .registry import metric

Rules = Mapping[str, Any]


@metric("check_slides")
def check_slides(found: Path, expected: Rules) -> float:
    """Conditions on a presentation: `count` of slides; `texts`: slide number from 1 → texts it must hold."""
    slides = list(readers.impress(found).slides)
    if "count" in expected and len(slides) != expected["count"]:
        return 0.0
    for number, wanted in (expected.get("texts") or {}).items():
        if int(number) > len(slides):
            return 0.0
        shapes = slides[int(number) - 1].shapes
        texts = [shape.text_frame.text.strip() for shape in shapes if shape.has_text_frame]
        if any(text not in texts for text in wanted):
            return 0.0
    return 1.0
