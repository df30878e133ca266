"""The sprite of icons: our own status shapes, and Lucide's pictures from node_modules, put together once."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

SHAPES: Final = Path(__file__).with_name("shapes.svg")
LUCIDE: Final = Path(settings.BASE_DIR) / "node_modules/lucide-static/icons"
NAMES: Final = """
    arrow-down arrow-left arrow-right arrow-up badge-check ban bot box check chevron-left chevron-right
    chevrons-up-down circle-alert circle-check circle-help circle-play clock copy copy-plus cpu diff download
    equal eye file-text filter fingerprint flag folder git-fork globe globe-lock grab hand hard-drive history
    hourglass house image info key-round keyboard layers list list-checks loader lock log-out mail maximize menu monitor
    monitor-off mouse mouse-pointer-2 mouse-pointer-click move octagon-x package pause pencil-line play plus
    refresh-cw repeat-2 rotate-cw scale scroll scroll-text search search-x send server settings skip-back
    skip-forward split sun-moon tag terminal timer trash-2 triangle-alert type upload user user-plus users wallet
    webhook wifi wifi-off x
""".split()  # noqa: SIM905  a list of a hundred quoted words reads worse
YEAR: Final = 31_536_000


@cache
def sprite() -> bytes:
    """One SVG with a <symbol> an icon. A picture whose package is not installed is left out."""
    symbols = [SHAPES.read_text().removesuffix("</svg>\n")]
    for name in NAMES:
        file = LUCIDE / f"{name}.svg"
        drawn = re.search(r"<svg[^>]*>(.*)</svg>", file.read_text(), re.S) if file.exists() else None
        if drawn:
            symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{" ".join(drawn[1].split())}</symbol>\n')
    return ("".join(symbols) + "</svg>\n").encode()


@cache
def address() -> str:
    """Where it is served; the digest in it lets browsers keep it for good."""
    return f"{reverse('icons')}?{hashlib.sha256(sprite()).hexdigest()[:12]}"


@require_safe
def icons(request: HttpRequest) -> HttpResponse:
    reply = HttpResponse(sprite(), content_type="image/svg+xml")
    reply["Cache-Control"] = f"public, max-age={YEAR}, immutable"
    return reply
