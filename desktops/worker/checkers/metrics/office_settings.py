"""Metrics on LibreOffice's settings and on what its window shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from desktops.worker.checkers import readers

from .registry import metric

Rules = Mapping[str, Any]


@metric("check_auto_saving_time")
def check_auto_saving_time(found: Path, expected: Rules) -> float:
    """The minutes between automatic saves."""
    value = readers.registry_value(
        found, "/org.openoffice.Office.Common/Save/Document", "AutoSaveTimeIntervall"
    )
    return float(value == str(expected["minutes"]))


@metric("check_presenter_console_disable")
def check_presenter_console_disable(found: Path) -> float:
    node = "/org.openoffice.Office.Impress/Misc/Start"
    return float(readers.registry_value(found, node, "EnablePresenterScreen") == "false")


@metric("find_default_font")
def find_default_font(found: Path, expected: Rules) -> float:
    """The default font of new text documents."""
    node = "/org.openoffice.Office.Writer/DefaultFont"
    return float(readers.registry_value(found, node, "Standard") == expected["font_name"])


@metric("check_office_setting")
def check_office_setting(found: Path, expected: Rules) -> float:
    """Any setting: {path, name, value}; value null means that it is at its default."""
    return float(readers.registry_value(found, expected["path"], expected["name"]) == expected["value"])


@metric("check_left_panel")
def check_left_panel(found: str) -> float:
    """Impress shows its slide panel: a visible split pane at the left edge."""
    state = "{uri:deskat:state.at-spi.gnome.org}visible"
    place = "{uri:deskat:component.at-spi.gnome.org}parentcoord"
    for pane in readers.xml(found).iter("split-pane"):
        parents = {parent.tag for parent in pane.iterancestors()}
        if pane.get(place) == "(0, 0)" and pane.get(state) and {"root-pane", "panel"} <= parents:
            return 1.0
    return 0.0
