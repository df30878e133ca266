"""A few calls to the console's own API, as any client makes them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any


class ApiError(Exception):
    """The console did not do what was asked; the message is its own."""


class Api:
    def __init__(self, url: str, token: str) -> None:
        self.url, self._token = url.rstrip("/"), token

    def get(self, path: str) -> Any:
        return self._call("GET", path, None)

    def post(self, path: str, document: dict[str, Any]) -> Any:
        return self._call("POST", path, document)

    def pages(self, path: str) -> list[dict[str, Any]]:
        """All results of a paged list."""
        found: list[dict[str, Any]] = []
        url: str | None = path
        while url:
            page = self.get(url)
            found += page["results"]
            url = page["next"]
        return found

    def _call(self, method: str, path: str, document: dict[str, Any] | None) -> Any:
        request = urllib.request.Request(  # noqa: S310 the address is the console's own
            path if path.startswith(self.url) else f"{self.url}{path}",
            method=method,
            data=None if document is None else json.dumps(document).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with _opener.open(request, timeout=30) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise ApiError(f"{method} {path}: {error.code} {_message(error.read())}") from error
        except (OSError, ValueError) as error:
            raise ApiError(f"{method} {path}: {error}") from error


# The console is on this machine: a proxy of the environment is not asked.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def answers(url: str) -> bool:
    """Does an HTTP server speak there, whatever it says?"""
    try:
        with _opener.open(url, timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _message(body: bytes) -> str:
    try:
        problem = json.loads(body)
        told = [f"{e.get('field')}: {e.get('message')}" for e in problem.get("errors") or []]
        return "; ".join([str(problem.get("detail") or problem.get("title") or ""), *told])
    except (ValueError, AttributeError):
        return body[:300].decode(errors="replace")
