"""The sprite: every icon that a template asks for is in it, and it is served without a session."""

from __future__ import annotations

import re
from pathlib import Path

from django.conf import settings
from django.test import Client
from django.urls import reverse

from console.pages.icons import NAMES, address, sprite
from console.templatetags.deskyard import LOOKS


def drawn() -> set[str]:
    return set(re.findall(r'<symbol id="([^"]+)"', sprite().decode()))


def test_every_named_icon_is_drawn() -> None:
    assert set(NAMES) <= drawn()


def test_every_status_has_its_shape() -> None:
    assert {look.icon for look in LOOKS.values()} <= drawn()


def test_every_icon_of_a_template_is_drawn() -> None:
    asked: set[str] = set()
    for page in Path(settings.BASE_DIR, "templates").rglob("*.html"):
        asked.update(re.findall(r'{% icon "([^"]+)"', page.read_text()))
    assert asked
    assert asked <= drawn()


def test_anybody_gets_the_sprite_and_keeps_it_for_good() -> None:
    reply = Client().get(address())
    assert reply["Content-Type"] == "image/svg+xml"
    assert "immutable" in reply["Cache-Control"]
    assert Client().post(reverse("icons")).status_code == 405
