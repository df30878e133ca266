"""What the shell around every page needs: the workspace in the address, the person's others, the theme."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest


def shell(request: HttpRequest) -> dict[str, Any]:
    return {"theme": "dark" if request.COOKIES.get("theme") == "dark" else "light"}
