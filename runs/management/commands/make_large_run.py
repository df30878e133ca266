"""Make a run of any size that nobody played, for benches: `manage.py make_large_run --workspace demo`."""

from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from console.models import Workspace
from runs import large, limits


class Command(BaseCommand):
    help = (
        "Make the largest run there can be, or a smaller one, with all of its rows and totals. For benches."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        shape = large.Shape()
        parser.add_argument("--workspace", required=True, help="The slug of the workspace that gets it.")
        parser.add_argument("--name", default="Made-up large run")
        parser.add_argument("--tasks", type=int, default=shape.tasks)
        parser.add_argument("--copies", type=int, default=shape.copies, help="Parallel copies of each task.")
        parser.add_argument("--forks", type=int, default=shape.forks, help="Fork copies of each.")
        parser.add_argument("--rounds", type=int, default=shape.rounds)
        parser.add_argument("--events", type=int, default=shape.events, help="About as many.")

    def handle(self, *args: Any, **options: Any) -> None:
        workspace = Workspace.objects.filter(slug=options["workspace"]).first()
        if workspace is None:
            raise CommandError(f"There is no workspace {options['workspace']!r}.")
        with connection.cursor() as cursor:
            cursor.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
            if not cursor.fetchone()[0]:
                raise CommandError("Only a superuser of the database may switch off triggers meanwhile.")
        ranges = {
            "tasks": limits.TASKS,
            "copies": limits.PARALLEL_COPIES,
            "forks": limits.FORK_COPIES,
            "rounds": limits.ROUNDS,
        }
        for name, allowed in ranges.items():
            if not allowed.low <= options[name] <= allowed.high:
                raise CommandError(f"--{name} goes from {allowed.low} to {allowed.high}.")
        began = time.monotonic()
        shape = large.Shape(**{name: options[name] for name in (*ranges, "events")})
        run = large.make(workspace, shape, options["name"], self._progress)
        self.stdout.write(
            f"Run #{run.number}: {run.planned:,} attempts and {run.last_seq:,} events "
            f"in {time.monotonic() - began:.0f} s."
        )

    def _progress(self, text: str) -> None:
        self.stderr.write(f"  … {text}")
