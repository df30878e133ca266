"""Watching a desktop that is being played on, taking it over, and letting it go."""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Literal

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Page, expect

from console.embedded.api import Api
from console.embedded.home import PROJECT

from .conftest import Site
from .test_first_run import sign_in

pytestmark = [pytest.mark.browser, pytest.mark.desktop]
LIVE_MS = 120_000
RED, GREEN, BLUE = range(3)
# A task that takes a minute: it waits fifteen times for a screen to rest that never does.
TYPED = "Seven {desks} & 1 Yard!"
# A terminal that is blue, green when it is pressed (by then the keys are its own), red when it hears just that.
LISTENS = f"""#!/bin/bash
printf "\\033[44m\\033[2J\\033[?9h"
read -rsn6 press
printf "\\033[?9l\\033[42m\\033[2J"
read -r heard
[ "$heard" = "{TYPED}" ] && printf "\\033[41m\\033[2J"
sleep 600
"""
WRITE = f"cat >/tmp/listens <<'END'\n{LISTENS}END\nchmod +x /tmp/listens"
SLOW = (
    f"WRITE = {WRITE!r}"
    + """
from runs.models import Task, TaskSet
task = Task.objects.filter(task_set__name="deskyard-basics", task_id="count-errors").latest("pk")
basics, task.pk, task._state.adding = task.task_set, None, True
task.task_set = TaskSet.objects.create(
    workspace=basics.workspace, name="slow", title="Slow", version=1, digest="sha256:" + "5" * 64
)
restless = ["xfce4-terminal", "-e", "bash -c 'while :; do echo $RANDOM; sleep 0.1; done'"]
listens = ["xfce4-terminal", "--disable-server", "--geometry=36x8+1460+570", "-e", "/tmp/listens"]
task.document["config"] = [
    {"type": "execute", "parameters": {"command": ["bash", "-c", WRITE]}},
    {"type": "launch", "parameters": {"command": restless}},
    {"type": "launch", "parameters": {"command": listens}},
]
task.recipe = [{"action": "wait", "seconds": 4}] * 15
task.save()
"""
)


@pytest.fixture
def run(site: Site) -> dict[str, Any]:
    subprocess.run(
        [sys.executable, "manage.py", "shell", "-v0", "-c", SLOW],
        cwd=PROJECT,
        env={**os.environ, "DATABASE_URL": site.database, "DESKYARD_HOME": str(site.logs)},
        check=True,
        timeout=120,
    )
    wanted = {
        "kind": "scripted_test",
        "name": "slow",
        "task_set": "slow",
        "tasks": ["count-errors"],
        "template": "basic@1",
        "spend_cap_usd": "0.50",
        "time_cap_minutes": 10,
    }
    return dict(Api(site.url, site.demo["token"]).post("/v1/runs", wanted))


@pytest.mark.timeout(600)
def test_a_desktop_is_watched_taken_over_and_let_go(
    site: Site, browser_tab: tuple[Page, list[str]], run: dict[str, Any]
) -> None:
    tab, complaints = browser_tab
    sign_in(tab, site)
    tab.goto(f"{run['url']}computers/")
    tab.get_by_role("link", name="Watch live").click(timeout=LIVE_MS)
    view = tab.locator("[data-watch]")
    expect(view).to_have_attribute("data-state", "live", timeout=LIVE_MS)
    until(tab, lambda: len(corner(tab).getcolors(1 << 16)) > 1)
    expect(tab.get_by_text("Your keys and clicks do not reach the desktop.")).to_be_visible()

    tab.get_by_role("button", name="Take over…").click()
    expect(tab.get_by_role("dialog")).to_contain_text("This attempt will not count.")
    tab.get_by_role("button", name="Take over, make it invalid").click()
    expect(view).to_have_attribute("data-driving", "", timeout=LIVE_MS)

    expect(tab.get_by_text("Taken over.", exact=True)).to_be_visible(
        timeout=LIVE_MS
    )  # the page renewed itself
    until(tab, lambda: filled(corner(tab), BLUE))
    before = corner(tab)
    click(tab, 0.8, 0.9, button="right")
    until(tab, lambda: differ(corner(tab), before))  # a menu came up
    tab.keyboard.press("Escape")
    until(tab, lambda: not differ(corner(tab), before))
    click(tab, 0.8, 0.58)
    until(tab, lambda: filled(corner(tab), GREEN))
    tab.keyboard.type(f"{TYPED}\n")
    until(tab, lambda: filled(corner(tab), RED))

    tab.get_by_role("button", name="Let go").click()
    assert tab.get_by_role("button", name="Try again").count() == 0  # it does not come back
    expect(tab.get_by_text("This desktop has ended")).to_be_visible(timeout=LIVE_MS)
    expect(tab.locator("[data-watch]")).to_have_count(0)
    tab.get_by_role("link", name="Open the replay").click()
    expect(tab.locator("main")).to_contain_text("Somebody took the desktop over")
    (attempt,) = Api(site.url, site.demo["token"]).get(f"/v1/runs/{run['id']}/attempts")["results"]
    assert (attempt["status"], attempt["verifier"], attempt["outcome"]) == ("done", "invalid", None)
    assert attempt["invalid_reasons"] == ["human_intervened"]
    assert attempt["tries"] == 1
    assert complaints == []


@pytest.mark.timeout(600)
def test_an_opened_computer_stays_in_sight_while_its_page_renews_itself(
    site: Site, browser_tab: tuple[Page, list[str]]
) -> None:
    tab, complaints = browser_tab
    sign_in(tab, site)
    opened = Api(site.url, site.demo["token"]).post("/v1/computers", {"template": "basic@1"})
    tab.goto(f"{site.url}/w/demo/computers/{opened['id']}/")
    view = tab.locator("[data-watch]")
    expect(view).to_have_attribute("data-state", "live", timeout=LIVE_MS)
    tab.evaluate("""() => {
        let renewed = 0;
        document.querySelector("[data-watch]").dataset.first = "";
        document.addEventListener("deskyard:renewed", () => { document.body.dataset.renewed = ++renewed; });
    }""")
    expect(tab.locator("body")).to_have_attribute("data-renewed", "2", timeout=LIVE_MS)
    expect(view).to_have_attribute("data-first", "")
    expect(view).to_have_attribute("data-state", "live")
    tab.get_by_role("link", name="Close…").click()
    tab.get_by_role("button", name="Close it").click()
    expect(view).to_have_count(0, timeout=LIVE_MS)
    assert complaints == []


def until(tab: Page, holds: Callable[[], bool]) -> None:
    """By asking from here: the page's policy lets no text be run as a script, Playwright's own waits either."""
    deadline = time.monotonic() + LIVE_MS / 1000
    while not holds():
        assert time.monotonic() < deadline
        tab.wait_for_timeout(100)


def corner(tab: Page) -> Image.Image:
    """What is drawn of the desktop's lower right, which the restless terminal leaves free."""
    url = tab.evaluate("document.querySelector('[data-screen] canvas')?.toDataURL() ?? ''")
    png = base64.b64decode(url.partition(",")[2])
    if not png:  # no canvas yet, or one without a size
        return Image.new("RGB", (1, 1))
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    return picture.crop((picture.width * 3 // 4, picture.height // 2, picture.width, picture.height))


def click(tab: Page, across: float, down: float, button: Literal["left", "right"] = "left") -> None:
    box = tab.locator("[data-screen] canvas").bounding_box()
    assert box is not None
    tab.mouse.click(box["x"] + across * box["width"], box["y"] + down * box["height"], button=button)


def filled(picture: Image.Image, channel: int) -> bool:
    """Whether a terminal's worth of it is of that colour, dark as a terminal's own are."""
    colours = picture.getcolors(1 << 20)
    return (
        sum(n for n, c in colours if c[channel] > 130 and max(c[:channel] + c[channel + 1 :]) < 110) > 10_000
    )


def differ(one: Image.Image, other: Image.Image) -> bool:
    """By more than a clock or a cursor."""
    changed = ImageChops.difference(one, other).convert("L").point(lambda value: 255 * (value > 8))
    return changed.histogram()[255] > 5_000
