"""The live door of a run's page: it says how far the log has come, and the page fetches what changed.

A frame is `{"seq": N}`: numbers only. What a page may read is decided when it reads, by its own loader.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, Final

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer

from console.doorbell import switchboard
from runs.models import Run

# A run may write hundreds of events a second; nobody reads faster than this.
FRAME_SECONDS: Final = 0.25
# A bell can be lost; the log is looked at this often all the same.
LOOK_SECONDS: Final = 10.0
NOT_YOURS: Final = 4404


class RunConsumer(AsyncWebsocketConsumer):
    _task: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accepted first, so that the refusal has a code a script can read."""
        await self.accept()
        where = self.scope["url_route"]["kwargs"]
        found = await self._run(where["workspace"], where["number"])
        if found is None:
            await self.close(code=NOT_YOURS)
            return
        self._task = asyncio.create_task(self._tell(found.pk, self._after()), name=f"run page {found.pk}")

    async def disconnect(self, code: int) -> None:
        if self._task is not None:
            self._task.cancel()

    def _after(self) -> int:
        for pair in self.scope["query_string"].decode(errors="replace").split("&"):
            name, _, value = pair.partition("=")
            if name == "after" and value.isdecimal():
                return int(value[:18])
        return 0

    async def _tell(self, pk: Any, told: int) -> None:
        async with switchboard().subscribe(f"run.{pk}") as bell:
            while True:
                bell.clear()
                seq = await self._seq(pk)
                if seq is None:  # no longer a member, or the run is gone
                    await self.close(code=NOT_YOURS)
                    return
                if seq > told:
                    told = seq
                    await self.send(text_data=json.dumps({"seq": seq}))
                    await asyncio.sleep(FRAME_SECONDS)
                with contextlib.suppress(TimeoutError):  # nobody rang: look all the same
                    async with asyncio.timeout(LOOK_SECONDS):
                        await bell.wait()

    @database_sync_to_async
    def _run(self, workspace: str, number: int) -> Run | None:
        user = self.scope.get("user")
        if user is None or not user.is_authenticated:
            return None
        return Run.objects.filter(
            workspace__slug=workspace, workspace__memberships__user_id=user.pk, number=number
        ).first()

    @database_sync_to_async
    def _seq(self, pk: Any) -> int | None:
        """Asked with the membership each time, so that leaving the workspace ends the feed."""
        user = self.scope["user"]
        return (
            Run.objects.filter(pk=pk, workspace__memberships__user_id=user.pk)
            .values_list("last_seq", flat=True)
            .first()
        )
