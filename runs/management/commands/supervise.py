"""Run the supervisor until SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand

from console.postman import Postman
from runs.supervisor import supervise


class Command(BaseCommand):
    help = (
        "Start queued runs, hand attempts to workers, keep the caps, notice lost workers, finish runs, send webhooks "
        "and mail."
    )
    requires_system_checks = ()  # they load every page, which this has no use for

    def handle(self, *args: Any, **options: Any) -> None:
        asked: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda signum, frame: asked.append(signum))
        with Postman():
            supervise(lambda: bool(asked))
