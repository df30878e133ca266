"""What a person does first: sign in, set up a scripted test, launch it, watch it finish, open an attempt."""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import Page, expect

from console.embedded.home import PROJECT

from .conftest import Site

pytestmark = [pytest.mark.browser, pytest.mark.desktop]
PICTURE = PROJECT / "docs" / "run-page.png"
TASKS = ("rename-folder", "fix-spelling", "count-errors")  # of the basic desktop
PLAY_MS = 180_000
PHONE = {"width": 390, "height": 844}
WORKSPACE_PAGES = (
    *("", "runs/", "runs/new/", "computers/", "task-sets/", "templates/", "workers/", "states/", "members/"),
    *("tokens/", "budget/", "webhooks/", "audit/", "settings/"),
)
RUN_PAGES = ("", "rollouts/", "computers/", "metrics/", "events/", "configuration/", "attempts/1/")
SWEPT_MS = 20_000  # the worker looks for desktops left behind as soon as it has nothing to do


@pytest.mark.timeout(600)
def test_a_first_run_from_sign_in_to_the_replay(site: Site, browser_tab: tuple[Page, list[str]]) -> None:
    tab, complaints = browser_tab
    sign_in(tab, site)
    expect(tab.get_by_role("heading", name="No runs in this workspace yet")).to_be_visible()
    _launch(tab)
    _watch_it_finish(tab)
    _keep_the_picture(tab)
    _open_an_attempt(tab)
    _hold_a_phone(tab, site)
    assert complaints == []


def sign_in(tab: Page, site: Site) -> None:
    tab.goto(site.url)
    tab.get_by_label("Email").fill(site.demo["email"])
    tab.get_by_label("Password").fill(site.demo["password"])
    tab.get_by_role("button", name="Sign in").click()


def _launch(tab: Page) -> None:
    tab.get_by_role("link", name="Set up a scripted test").click()
    for task in TASKS:
        tab.locator(f"input[name=tasks][value={task}]").check()
    tab.get_by_role("button", name="Environment").click()
    tab.get_by_role("radio", name="basic@1").check()
    tab.get_by_role("button", name="Execution").click()
    tab.get_by_role("button", name="Budget").click()
    tab.get_by_label("Spend cap").fill("0.50")
    tab.get_by_role("button", name="Review").click()
    tab.get_by_role("button", name="Launch run").click()
    expect(tab.locator("h1")).to_contain_text("#1")


def _watch_it_finish(tab: Page) -> None:
    """The page follows by itself: what a reload would take away is still there at the end."""
    tab.evaluate("window.notReloaded = true")
    expect(tab.locator(".facts .badge")).to_have_text("Completed", timeout=PLAY_MS)
    assert tab.evaluate("window.notReloaded") is True
    expect(tab.locator(".big")).to_contain_text(f"{len(TASKS)} of {len(TASKS)} recipes passed")
    expect(tab.get_by_text("0 left. Nothing more will be billed.")).to_be_visible(timeout=SWEPT_MS)
    expect(tab.locator(".cell.ok")).to_have_count(len(TASKS))


def _keep_the_picture(tab: Page) -> None:
    """docs/run-page.png: made where there is none, or anew with DESKYARD_PICTURES=1."""
    if PICTURE.exists() and not os.environ.get("DESKYARD_PICTURES"):
        return
    for shot in tab.locator("img.shot").all():
        shot.scroll_into_view_if_needed()
        expect(shot).to_have_js_property("complete", True)
    tab.evaluate("scrollTo(0, 0)")
    PICTURE.parent.mkdir(exist_ok=True)
    tab.screenshot(path=PICTURE, full_page=True)


def _open_an_attempt(tab: Page) -> None:
    tab.locator("a.cell").first.click()
    expect(tab.get_by_role("heading", name="Verifier evidence")).to_be_visible()
    places = int(tab.locator("[data-scrub]").get_attribute("max") or 0)
    assert places >= 3
    expect(tab.locator("[data-now]")).to_have_text(str(places - 1))  # the screen it left when it said done
    tab.keyboard.press("ArrowLeft")
    expect(tab.locator("[data-now]")).to_have_text(str(places - 2))
    shown = tab.locator("[data-stage-shot]").get_attribute("href")
    assert shown
    assert tab.request.get(tab.url.split("/w/")[0] + shown).headers["content-type"].startswith("image/")


def _hold_a_phone(tab: Page, site: Site) -> None:
    """No page is wider than its screen."""
    tab.set_viewport_size(PHONE)
    home, run = f"{site.url}/w/demo/", f"{site.url}/w/demo/runs/1/"
    pages = [home + page for page in WORKSPACE_PAGES] + [run + page for page in RUN_PAGES]
    wide = []
    for page in pages:
        tab.goto(page)
        assert tab.locator("main h1").count() == 1, page
        if tab.evaluate("document.documentElement.scrollWidth") > PHONE["width"]:
            wide.append(page)
    assert wide == []
