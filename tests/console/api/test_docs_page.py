"""The browsable API page, in a browser, under the console's own content policy."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from playwright.sync_api import sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.django_db(transaction=True)
def test_the_page_lists_every_route_and_the_policy_blocks_nothing(live_server: Any) -> None:
    complaints: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"{live_server.url}/v1/docs/")
        page.get_by_text("Create a run").wait_for()
        assert page.locator(".opblock").count() >= 17
        browser.close()
    assert complaints == []
