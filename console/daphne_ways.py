"""Daphne answers some things before Django sees them. From here on it does so in words, or leaves them to Django."""

from __future__ import annotations

import logging
from typing import Any

from autobahn.twisted.websocket import WebSocketServerFactory
from daphne.http_protocol import WebRequest  # type: ignore[import-untyped]
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol  # type: ignore[import-untyped]

log = logging.getLogger(__name__)
_begin = WebRequest.__init__
_refuse = WebSocketProtocol._max_message_size_exceeded


def mend() -> None:
    """Before the server starts."""
    WebRequest.__init__ = _without_forms
    WebSocketFactory.resetProtocolOptions = _options
    WebSocketProtocol._max_message_size_exceeded = _too_large


def _without_forms(self: WebRequest, *arguments: Any, **named: Any) -> None:
    """Django reads them. Twisted would read them too, and answers an empty 400 to one that it cannot."""
    _begin(self, *arguments, **named)
    self._parsePOSTFormSubmission = False


def _options(self: WebSocketFactory) -> None:
    """A socket that breaks the protocol is told so by a close code; otherwise its connection is just cut."""
    WebSocketServerFactory.resetProtocolOptions(self)  # type: ignore[no-untyped-call]
    self.failByDrop = False


def _too_large(self: WebSocketProtocol, size: int, most: int, reason: str) -> None:
    told = "A websocket from %s sent a frame of %s bytes; at most %s are taken. It is closed with code 1009."
    log.warning(told, self.peer, f"{size:,}", f"{most:,}")
    _refuse(self, size, most, reason)
