"""Metrics on text documents (docx)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.text.paragraph import Paragraph
from docx.text.run import Run

from desktops.worker.checkers import readers

from .registry import metric

Rules = Mapping[str, Any]
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


@metric("check_paragraphs")
def check_paragraphs(found: Path, expected: Rules) -> float:
    """Conditions on paragraphs, empty ones left out.

    `texts` (all, in order), `styles` (index → name of its style), `bold`, `italic`, `centered` (indexes).
    """
    paragraphs = [item for item in readers.writer(found).paragraphs if item.text.strip()]
    if "texts" in expected and [item.text.strip() for item in paragraphs] != list(expected["texts"]):
        return 0.0
    for index, name in (expected.get("styles") or {}).items():
        if int(index) >= len(paragraphs):
            return 0.0
        style = paragraphs[int(index)].style
        if style is None or str(style.name).lower() != str(name).lower():
            return 0.0
    for key, holds in (("bold", _is_bold), ("italic", _is_italic), ("centered", _is_centered)):
        for index in expected.get(key) or []:
            if index >= len(paragraphs) or not holds(paragraphs[index]):
                return 0.0
    return 1.0


def _filled(paragraph: Paragraph) -> list[Run]:
    return [run for run in paragraph.runs if run.text.strip()]


def _is_bold(paragraph: Paragraph) -> bool:
    return all(run.bold for run in _filled(paragraph))


def _is_italic(paragraph: Paragraph) -> bool:
    return all(run.italic for run in _filled(paragraph))


def _is_centered(paragraph: Paragraph) -> bool:
    return paragraph.alignment == WD_ALIGN_PARAGRAPH.CENTER


@metric("has_page_numbers_in_footers")
def has_page_numbers_in_footers(found: Path) -> float:
    """Every section's footer holds a page number."""
    for section in readers.writer(found).sections:
        footer = section.footer
        if footer is None:
            return 0.0  # type: ignore[unreachable]
        text = "".join(paragraph.text for paragraph in footer.paragraphs)
        fields = "".join(node.text or "" for node in footer._element.iter(f"{_W}instrText"))
        simple = "".join(node.get(f"{_W}instr", "") for node in footer._element.iter(f"{_W}fldSimple"))
        if "PAGE" not in fields + simple and not any(letter.isdigit() for letter in text):
            return 0.0
    return 1.0


@metric("contains_page_break")
def contains_page_break(found: Path, expected: Rules | None = None) -> float:
    """As many page breaks as `page_break_count`, or at least one without it."""
    document = readers.writer(found)
    breaks = sum(1 for node in document.element.body.iter(f"{_W}br") if node.get(f"{_W}type") == "page")
    wanted = (expected or {}).get("page_break_count")
    return float(breaks > 0 if wanted is None else breaks == wanted)


@metric("compare_font_names")
def compare_font_names(found: Path, expected: Rules) -> float:
    """All text is set in that font."""
    names = {run.font.name for run in _runs(found)}
    return float(names == {expected["font_name"]})


@metric("check_italic_font_size_14")
def check_italic_font_size_14(found: Path, expected: Path) -> float:
    """Same text as the original, and every italic run is 14 points large."""
    if [p.text for p in readers.writer(found).paragraphs] != [
        p.text for p in readers.writer(expected).paragraphs
    ]:
        return 0.0
    italic = [run for run in _runs(found) if run.italic]
    return float(all(run.font.size is not None and run.font.size.pt == 14 for run in italic))


@metric("is_first_line_centered")
def is_first_line_centered(found: Path) -> float:
    paragraphs = readers.writer(found).paragraphs
    return float(bool(paragraphs) and _is_centered(paragraphs[0]))


@metric("compare_subscript_contains")
def compare_subscript_contains(found: Path, expected: Path) -> float:
    """Both documents have a subscript at the same place at least once."""
    pairs = zip(_runs(found), _runs(expected), strict=False)
    return float(any(one.font.subscript and other.font.subscript for one, other in pairs))


def _runs(path: Path) -> Iterator[Run]:
    for paragraph in readers.writer(path).paragraphs:
        yield from _filled(paragraph)
