"""People at the console: they sign in, look at its pages and fill in its forms."""

from __future__ import annotations

import html
import re

import requests

from tests.factories import PASSWORD

from .rig import Lab, Rig


class Person(requests.Session):
    """`with Person(rig, "owner") as owner: …` – signed in for as long."""

    def __init__(self, rig: Rig, name: str) -> None:
        super().__init__()
        self.trust_env = False
        self._url = rig.url
        self.get(f"{rig.url}/accounts/login/").raise_for_status()
        self.submit("/accounts/login/", login=f"{name}@example.test", password=PASSWORD)
        assert "sessionid" in self.cookies, f"{name} was not let in"

    def submit(self, path: str, **form: str) -> requests.Response:
        """A page's form, and the page that comes of it, whatever its status."""
        address = f"{self._url}{path}"
        token = {"csrfmiddlewaretoken": self.cookies["csrftoken"]}
        return self.post(address, data=form | token, headers={"Referer": address})

    def act(self, model: str, action: str, key: object) -> None:
        """An action of the admin on one row."""
        row = {"action": action, "_selected_action": str(key), "index": "0"}
        self.submit(f"/admin/{model}/", **row).raise_for_status()

    def reads(self, path: str) -> str:
        """What a page says."""
        page = self.get(f"{self._url}{path}")
        page.raise_for_status()
        return words(page)


def words(page: requests.Response) -> str:
    """Its text, without what is markup."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page.text)).split())


def page_of(lab: Lab, run: str) -> str:
    number = lab.rig.value("SELECT number FROM runs_run WHERE id = %s", run)
    return f"/w/{lab.slug}/runs/{number}/"
