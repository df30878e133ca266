"""Compare the totals that triggers keep with the rows they count: `manage.py check_totals`."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from runs.tallies import differences


class Command(BaseCommand):
    help = "Compare stored totals with the rows they count. It reads all of them, so it takes its time."

    def handle(self, *args: Any, **options: Any) -> None:
        found = differences()
        for one in found:
            self.stderr.write(f"{one.table} {one.key}: kept {one.kept}, counted {one.counted}")
        if found:
            raise CommandError(f"{len(found)} totals differ from the rows they count.")
        self.stdout.write("Every total is what its rows come to.")
