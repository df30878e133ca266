"""The worker's log, in which its own token never stands."""

from __future__ import annotations

import logging
from typing import Final

MARK: Final = "[redacted]"


class Formatter(logging.Formatter):
    """The last thing that happens to a line, so that arguments and tracebacks are covered alike."""

    def __init__(self, secret: str) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._secret = secret

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).replace(self._secret, MARK)


def start(level: str, secret: str) -> None:
    """Log to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(Formatter(secret))
    logging.basicConfig(level=level, handlers=[handler])
    logging.getLogger("websockets").setLevel(logging.WARNING)
    logging.captureWarnings(True)
