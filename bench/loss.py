"""From the moment at which a worker is killed, or freezes, until its run says that it is recovering."""

from __future__ import annotations

import signal
import time

from .table import Figure, Peer, Row, Samples
from .whole import Whole, until

LIMIT_SECONDS = 20.0


def measure(whole: Whole) -> list[Row]:
    limit = Peer("limit", Samples((LIMIT_SECONDS,)))
    return [
        Figure(f"a worker that {what} is noticed", "s", Samples((_once(whole, sign),)), limit, LIMIT_SECONDS)
        for what, sign in (("was killed", signal.SIGKILL), ("froze", signal.SIGSTOP))
    ]


def _once(whole: Whole, sign: signal.Signals) -> float:
    run = whole.play()
    began = time.monotonic()
    whole.worker.send_signal(sign)
    until(lambda: whole.status(run) == "recovering", "the notice")
    noticed = time.monotonic() - began
    if sign == signal.SIGKILL:
        whole.worker.wait()
        whole.start_worker()
    else:
        whole.worker.send_signal(signal.SIGCONT)
    whole.end(run)
    return noticed
