"""Where the API's addresses begin; all others are pages."""

from __future__ import annotations

from typing import Final

API: Final = ("/v1/", "/preview/")
