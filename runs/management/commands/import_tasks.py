"""Import tasks: `manage.py import_tasks osworld|folder PATH [--name NAME] [--workspace SLUG]`."""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from console.actor import Actor
from console.models import Workspace
from runs.actions.material import NothingCanRun, import_folder, import_osworld
from runs.tasksets.osworld import NotATaskSet


class Command(BaseCommand):
    help = (
        "Import tasks into a workspace: those of an OSWorld checkout or of its examples folder (osworld), or your own "
        "(folder): one JSON file a task, in OSWorld's format, with recipes/ and files/ beside them."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("format", choices=["osworld", "folder"])
        parser.add_argument("path", type=Path)
        parser.add_argument("--name", help="What a folder's set is called; without it as the folder is.")
        parser.add_argument("--workspace", help="Its slug; not needed where there is only one workspace.")

    def handle(self, *args: Any, path: Path, **options: Any) -> None:
        workspace, actor = self._workspace(options["workspace"]), Actor.system("import_tasks")
        name = options["name"] or path.resolve().name
        try:
            if options["format"] == "osworld":
                stored = import_osworld(workspace=workspace, path=path, actor=actor)
            else:
                stored = import_folder(workspace=workspace, path=path, name=name, actor=actor)
        except NotATaskSet as error:
            raise CommandError(str(error)) from error
        except NothingCanRun as error:
            self._list([(one.file, one.sentence, one.code) for one in error.refused], str(error))
            raise CommandError(str(error)) from error
        tasks = stored.tasks.count()
        solved = stored.tasks.exclude(recipe=None).count()
        self._list(
            [(one["file"], one["reason"], one["code"]) for one in stored.refused],
            f"{stored}: {tasks} tasks can run here, {solved} of them have a recipe.",
        )

    def _list(self, refused: list[tuple[str, str, str]], result: str) -> None:
        """Each file that cannot run with its reason, the result, and how many have which reason."""
        for file, reason, code in refused:
            self.stdout.write(f"{file}: {reason} ({code})")
        self.stdout.write(result)
        for code, number in Counter(code for *_, code in refused).most_common():
            self.stdout.write(f"  {number:4} cannot: {code}")

    def _workspace(self, slug: str | None) -> Workspace:
        found = Workspace.objects.filter(slug=slug) if slug else Workspace.objects.all()[:2]
        if len(found) == 1:
            return found[0]
        raise CommandError(
            f"There is no workspace {slug}." if slug else "Say which workspace: --workspace SLUG"
        )
