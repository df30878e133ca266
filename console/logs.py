"""What goes into the log, and how much of it."""

from __future__ import annotations

import logging


class InALine(logging.Filter):
    """A request that was refused is a line; a traceback is for what broke here."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "status_code", 500) < 500:
            record.exc_info = record.exc_text = None
        return True
