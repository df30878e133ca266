"""The accessibility tree as XML, from AT-SPI. Run as a program: an application that hangs must not hang
the agent.

The document has the element and attribute names that OSWorld's readers expect of a desktop's tree. A
table with
more cells than fit on screen (a spreadsheet has 2³¹) is entered only through the cells that are showing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from xml.etree import ElementTree

import gi

gi.require_version("Atspi", "2.0")
from gi.repository import Atspi, GLib  # noqa: E402  (the version has to be named first)

STATE = "https://accessibility.ubuntu.example.org/ns/state"
ATTRIBUTE = "https://accessibility.ubuntu.example.org/ns/attributes"
COMPONENT = "https://accessibility.ubuntu.example.org/ns/component"
DOCUMENT = "https://accessibility.ubuntu.example.org/ns/document"
TEXT = "https://accessibility.ubuntu.example.org/ns/text"
VALUE = "https://accessibility.ubuntu.example.org/ns/value"
ACTION = "https://accessibility.ubuntu.example.org/ns/action"
NAMESPACES = {
    "st": STATE,
    "attr": ATTRIBUTE,
    "cp": COMPONENT,
    "doc": DOCUMENT,
    "txt": TEXT,
    "val": VALUE,
    "act": ACTION,
}
MAX_DEPTH = 60
MAX_CHILDREN = 1024  # of one node, in order; a table's beyond that are reached by their place on screen
GRID_CELLS = 4000
TEXT_LIMIT = 20_000
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
TABLES = ("table", "tree-table")


class Walk:
    def __init__(self, max_nodes: int) -> None:
        self.left = max_nodes

    def node(self, accessible: Atspi.Accessible, depth: int) -> ElementTree.Element | None:
        """One node and what is under it; None when there is no room or it went away meanwhile."""
        if self.left <= 0:
            return None
        try:
            element = describe(accessible)
        except GLib.Error:
            return None
        self.left -= 1
        if depth < MAX_DEPTH:
            for child in children(accessible, element.tag):
                below = self.node(child, depth + 1)
                if below is not None:
                    element.append(below)
                if self.left <= 0:
                    break
        return element


def describe(accessible: Atspi.Accessible) -> ElementTree.Element:
    role = accessible.get_role_name() or "unknown"
    tag = re.sub(r"[^a-z0-9-]+", "-", role.lower()).strip("-") or "unknown"
    if tag[0].isdigit():
        tag = f"role-{tag}"
    element = ElementTree.Element(tag, {"name": clean(accessible.get_name() or "")})
    states = accessible.get_state_set()
    for state in states.get_states():
        element.set(f"{{{STATE}}}{state.value_nick}", "true")
    for key, value in (accessible.get_attributes() or {}).items():
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", key)
        if name and (name[0].isalpha() or name[0] == "_"):
            element.set(f"{{{ATTRIBUTE}}}{name}", clean(value))
    _place(accessible, element, states)
    _content(accessible, element)
    return element


def _place(accessible: Atspi.Accessible, element: ElementTree.Element, states: Atspi.StateSet) -> None:
    component = accessible.get_component_iface()
    if component is None or not states.contains(Atspi.StateType.SHOWING):
        return
    box = component.get_extents(Atspi.CoordType.SCREEN)
    element.set(f"{{{COMPONENT}}}screencoord", f"({box.x}, {box.y})")
    element.set(f"{{{COMPONENT}}}size", f"({box.width}, {box.height})")
    inside = component.get_extents(Atspi.CoordType.WINDOW)
    element.set(f"{{{COMPONENT}}}windowcoord", f"({inside.x}, {inside.y})")


def _content(accessible: Atspi.Accessible, element: ElementTree.Element) -> None:
    text = accessible.get_text_iface()
    if text is not None:
        length = Atspi.Text.get_character_count(text)
        if length:
            element.text = clean(Atspi.Text.get_text(text, 0, min(length, TEXT_LIMIT)) or "")
    value = accessible.get_value_iface()
    if value is not None:
        element.set(f"{{{VALUE}}}value", str(Atspi.Value.get_current_value(value)))
    action = accessible.get_action_iface()
    if action is not None:
        for index in range(min(Atspi.Action.get_n_actions(action), 8)):
            name = re.sub(r"[^A-Za-z0-9_.-]", "-", Atspi.Action.get_action_name(action, index) or "")
            if name and name[0].isalpha():
                element.set(f"{{{ACTION}}}{name}_desc", "")


def children(accessible: Atspi.Accessible, tag: str) -> Iterator[Atspi.Accessible]:
    try:
        count = accessible.get_child_count()
    except GLib.Error:
        return
    if tag in TABLES and count > MAX_CHILDREN:
        yield from showing_cells(accessible)
        return
    for index in range(min(count, MAX_CHILDREN)):
        try:
            child = accessible.get_child_at_index(index)
        except GLib.Error:
            continue
        if child is not None:
            yield child


def showing_cells(accessible: Atspi.Accessible) -> Iterator[Atspi.Accessible]:
    """The cells of a large table between the one in its upper left and the one in its lower right corner."""
    component, table = accessible.get_component_iface(), accessible.get_table_iface()
    if component is None or table is None:
        return
    try:
        box = component.get_extents(Atspi.CoordType.SCREEN)
        first = component.get_accessible_at_point(box.x + 2, box.y + 2, Atspi.CoordType.SCREEN)
        if first is None:
            return
        index = first.get_index_in_parent()
        top, left = table.get_row_at_index(index), table.get_column_at_index(index)
    except GLib.Error:
        return
    cells = 0
    for row in range(top, top + 200):
        shown = False
        for column in range(left, left + 100):
            try:
                cell = table.get_accessible_at(row, column)
            except GLib.Error:
                cell = None
            if cell is None or not cell.get_state_set().contains(Atspi.StateType.SHOWING):
                break
            shown = True
            cells += 1
            yield cell
            if cells >= GRID_CELLS:
                return
        if not shown:
            return


def clean(text: str) -> str:
    """Without what XML cannot hold."""
    return _NOT_XML.sub("", text)


def tree(max_nodes: int) -> str:
    for prefix, uri in NAMESPACES.items():
        ElementTree.register_namespace(prefix, uri)
    Atspi.init()
    Atspi.set_timeout(800, 3000)
    root = ElementTree.Element("desktop-frame", {"name": "main"})
    walk = Walk(max_nodes)
    for application in children(Atspi.get_desktop(0), "desktop-frame"):
        below = walk.node(application, 1)
        if below is not None:
            root.append(below)
    return ElementTree.tostring(root, encoding="unicode")


if __name__ == "__main__":
    sys.stdout.write(tree(int(sys.argv[1]) if len(sys.argv) > 1 else 3000))
