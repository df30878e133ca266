"""What is on the screen: sizes, the terminal's text, the accessibility tree."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

from PIL import Image

from desktops.worker.checkers import readers
from desktops.worker.checkers.bench import Bench
from desktops.worker.checkers.errors import ArtefactMissing

from .registry import getter


@getter("vm_screen_size")
def vm_screen_size(bench: Bench, parameters: Mapping[str, Any]) -> dict[str, int]:
    """{width, height} of the screen, in pixels."""
    with Image.open(BytesIO(bench.guest.screenshot())) as picture:
        return {"width": picture.width, "height": picture.height}


@getter("vm_window_size")
def vm_window_size(bench: Bench, parameters: Mapping[str, Any]) -> dict[str, int]:
    """{width, height} of the topmost window of class `app_class_name`, in pixels."""
    name = str(parameters["app_class_name"]).lower()
    for window in reversed(bench.guest.windows()):
        if name in window.wm_class.lower():
            return {"width": window.width, "height": window.height}
    raise ArtefactMissing(f"no window of {name} is open")


@getter("accessibility_tree")
def accessibility_tree(bench: Bench, parameters: Mapping[str, Any]) -> str:
    """The accessibility tree as XML."""
    tree = bench.guest.accessibility()
    bench.keep("accessibility.xml", tree.encode())
    return tree


@getter("vm_terminal_output")
def vm_terminal_output(bench: Bench, parameters: Mapping[str, Any]) -> str:
    """The text in the terminal window that is open; of several, in the longest one's."""
    root = readers.xml(bench.guest.accessibility())
    texts = [(node.text or "").rstrip() for node in root.iter("terminal")]
    if not texts:
        raise ArtefactMissing("no terminal window is open")
    return max(texts, key=len)
