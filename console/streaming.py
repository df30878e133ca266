"""Files that are made while they are sent: their size costs no memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse


class Streamed(StreamingHttpResponse):
    """Takes a plain iterator under ASGI too, where Django itself would read it to its end first.

    Each piece is made in the request's own thread, so the iterator may ask the database.
    """

    def __init__(self, pieces: Iterable[bytes], *, content_type: str, filename: str) -> None:
        super().__init__(pieces, content_type=content_type)
        self["Content-Disposition"] = f'attachment; filename="{filename}"'
        self["Cache-Control"] = "no-store"

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces: Iterator[bytes] = iter(self.streaming_content)  # type: ignore[arg-type]  # never an async one
        take = sync_to_async(lambda: next(pieces, None))
        while (piece := await take()) is not None:
            yield piece
