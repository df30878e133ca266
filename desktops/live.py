"""Both ends of a live view meet here: the browser's socket, by its ticket, and its worker's tunnel.

They meet in the process that has the browser. A tunnel that reaches another one is turned away and dials again; the
view's row and the worker's bell are how the worker comes to hear of it, whichever process it talks to.

Daphne takes in and keeps whatever comes, at any pace, so both ways are held to a window; see the protocol's messages.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from typing import Final

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.contrib.auth import HASH_SESSION_KEY
from django.db import InterfaceError, OperationalError
from django.utils.crypto import constant_time_compare
from pydantic import ValidationError

from console.models import Scope, Token, User
from desktops.actions import views
from desktops.models import LiveView
from desktops.protocol import messages
from desktops.protocol.messages import Seen, ViewNews
from desktops.sockets import UNAUTHORISED, token_of

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 2.0  # between two looks whether the person may still see it
TUNNEL_SECONDS: Final = 20.0
NO_VIEW, TAKEN = 4404, 4409
NO_TUNNEL = (
    f"The desktop's worker did not connect within {TUNNEL_SECONDS:g} s. Its console connection may be away, or it"
    " reached another process of this console. Try again."
)
NOT_ANY_LONGER = "The desktop has ended, or you may not see it any longer."

_browsers: dict[uuid.UUID, Browser] = {}


class Browser(AsyncWebsocketConsumer):
    """Whoever watches. Binary frames are RFB, text frames say how the view stands and how much has been seen."""

    too_old = "The link to the desktop was used already, or is too old. Reload the page for another."
    no_person = "Your browser sent more than a person types and clicks."
    view: LiveView | None = None
    tunnel: Tunnel | None = None
    _watch: asyncio.Task[None] | None = None
    _over = False

    async def connect(self) -> None:
        """Accepted first, so that a refusal comes with words."""
        await self.accept()
        self._sent = self._seen = 0  # bytes of pixels
        self._passed = self._taken = 0  # bytes of input
        if (user := await self._person()) is not None:
            ticket = self.scope["url_route"]["kwargs"]["ticket"]
            self.view = await database_sync_to_async(views.open_view)(ticket, user)
        if self.view is None:
            await self.end(ViewNews(state="ended", detail=self.too_old))
            return
        _browsers[self.view.pk] = self
        await self.tell(ViewNews(state="waiting", detail="Asking the worker for the desktop's screen."))
        self._watch = asyncio.create_task(self._look(self.view), name=f"live view {self.view.pk}")

    async def disconnect(self, code: int) -> None:
        self._over = True
        if self._watch is not None:
            self._watch.cancel()
        if self.tunnel is not None:
            await self.tunnel.close()
        if self.view is not None:
            _browsers.pop(self.view.pk, None)
            await database_sync_to_async(views.end_view)(self.view)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self._over or self.tunnel is None:
            return
        if bytes_data is None:
            try:
                seen = Seen.model_validate_json(text_data or "")
            except ValidationError:
                await self.end(ViewNews(state="ended", detail=self.no_person))
                return
            self._seen = min(max(self._seen, seen.bytes), self._sent)
            await self.tunnel.tell(Seen(bytes=self._seen))
            return
        self._passed += len(bytes_data)
        if len(bytes_data) > messages.INPUT_FRAME or self._passed - self._taken > messages.INPUT_WINDOW:
            await self.end(ViewNews(state="ended", detail=self.no_person))
            return
        await self.tunnel.send(bytes_data=bytes_data)

    # ── from the tunnel ──────────────────────────────────────────────────────────────────────────────────────────

    async def pixels(self, data: bytes) -> None:
        self._sent += len(data)
        if self._sent - self._seen > messages.VIEW_WINDOW + messages.VIEW_FRAME:
            log.warning("A worker sends more pixels than a live view's window takes; the view ends.")
            await self.end(
                ViewNews(state="ended", detail="The desktop's worker broke the rules of a live view.")
            )
            return
        await self.send(bytes_data=data)

    def taken(self, count: int) -> None:
        self._taken = min(max(self._taken, count), self._passed)

    async def tell(self, news: ViewNews) -> None:
        await self.send(text_data=news.model_dump_json())

    async def end(self, news: ViewNews) -> None:
        if not self._over:
            self._over = True
            await self.tell(news)
            await self.close()
            if self.tunnel is not None:
                await self.tunnel.close()

    # ── meanwhile ────────────────────────────────────────────────────────────────────────────────────────────────

    async def _look(self, view: LiveView) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                may = await database_sync_to_async(self._may_go_on)(view)
            except (OperationalError, InterfaceError) as error:
                log.warning("Ending the live view of %s: %s", view.computer, error)
                await self.end(ViewNews(state="again", detail="The console cannot reach its database."))
                return
            if not may:
                await self.end(ViewNews(state="ended", detail=NOT_ANY_LONGER))
                return
            if self.tunnel is None and time.monotonic() - began > TUNNEL_SECONDS:
                await self.end(ViewNews(state="again", detail=NO_TUNNEL))
                return

    async def _person(self) -> User | None:
        user: User | None = self.scope.get("user")
        return user if user is not None and user.is_authenticated else None

    def _may_go_on(self, view: LiveView) -> bool:
        """While the session is there and the password is the one that it began with."""
        session, person = self.scope["session"], User.objects.get(pk=view.user_id)
        known = str(session.get(HASH_SESSION_KEY, ""))
        return (
            session.exists(session.session_key)
            and constant_time_compare(known, person.get_session_auth_hash())
            and views.go_on(view)
        )


class Watcher(Browser):
    """A program that watches: it has a token in place of a session, and is at no page whose origin could be asked."""

    too_old = (
        "The ticket was used already, is too old, or is another person's, or this token does not have computers:read."
        " Ask for another ticket: each opens one socket."
    )
    no_person = "More came through this socket than a viewer sends."

    def _token(self) -> Token | None:
        return token_of(dict(self.scope["headers"]).get(b"authorization", b""), Scope.COMPUTERS_READ)

    async def _person(self) -> User | None:
        token = await database_sync_to_async(self._token)()
        return token.user if token is not None else None

    def _may_go_on(self, view: LiveView) -> bool:
        return self._token() is not None and views.go_on(view)


class Tunnel(AsyncWebsocketConsumer):
    """The worker's end: it dials when it has heard of the view."""

    browser: Browser | None = None

    async def connect(self) -> None:
        await self.accept()
        headers = dict(self.scope["headers"])
        token = await database_sync_to_async(token_of)(headers.get(b"authorization", b""))
        if token is None:
            await self.close(UNAUTHORISED)
            return
        view = self.scope["url_route"]["kwargs"]["view"]
        if not await database_sync_to_async(views.is_open)(view, token):
            await self.close(NO_VIEW)
            return
        browser = _browsers.get(view)
        if browser is None:
            await self.close(messages.ELSEWHERE)
        elif browser.tunnel is not None:
            await self.close(TAKEN)
        else:
            self.browser, browser.tunnel = browser, self
            await self.tell(Seen(bytes=0))

    async def disconnect(self, code: int) -> None:
        if self.browser is not None:
            await self.browser.end(ViewNews(state="again", detail="The connection to the desktop ended."))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        browser = self.browser
        if browser is None:
            return
        if bytes_data is not None:
            await browser.pixels(bytes_data)
            return
        try:
            text = messages.tunnel_text.validate_json(text_data or "")
        except ValidationError as error:
            log.warning("A tunnel said what no tunnel says: %s", error.errors()[0]["msg"])
            await self.close()
            return
        if isinstance(text, Seen):
            browser.taken(text.bytes)
        elif text.state in ("ended", "again"):
            await browser.end(text)
        else:
            await browser.tell(text)

    async def tell(self, seen: Seen) -> None:
        await self.send(text_data=seen.model_dump_json())
