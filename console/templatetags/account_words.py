"""Words for the pages of an account."""

from __future__ import annotations

import re

from django import template

register = template.Library()

# The first that is named wins: Edge and Opera call themselves Chrome too, and Chrome Safari.
_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR", "Opera"),
    ("Firefox", "Firefox"),
    ("Chrome", "Chrome"),
    ("Safari", "Safari"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS", "macOS"),
    ("Linux", "Linux"),
)


@register.filter
def browser(agent: str) -> str:
    """`Firefox 128 on Linux` of a User-Agent header; what is none of those as it stands, cut short."""
    system = next((word for mark, word in _SYSTEMS if mark in agent), "")
    for mark, word in _BROWSERS:
        found = re.search(rf"{mark}/(\d+)", agent)
        if found:
            return f"{word} {found[1]}" + (f" on {system}" if system else "")
    return agent[:60] or "A program without a name"
