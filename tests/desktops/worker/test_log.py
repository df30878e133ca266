"""The worker's token is in no line of its log."""

from __future__ import annotations

import logging
import sys

from desktops.worker.log import MARK, Formatter

TOKEN = "dy_" + "ab" * 32


def test_no_line_and_no_traceback_holds_the_token() -> None:
    try:
        raise OSError(f"refused: Bearer {TOKEN}")
    except OSError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "sent %s", (TOKEN,), sys.exc_info())
    line = Formatter(TOKEN).format(record)
    assert TOKEN not in line
    assert line.count(MARK) == 2
