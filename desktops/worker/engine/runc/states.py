"""Live desktops, saved: each a folder with the image of its processes, what it wrote, and what it was made from."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path

from desktops.worker.engine.base import EngineError

MAKING = ".new"


class States:
    """Under `folder`, by name. One that is being written has another name until it is whole.

    NAME/images/    CRIU's images
    NAME/upper/     what the desktop wrote over its image
    NAME/image      id of that image
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def find(self, name: str, image_id: str) -> Path | None:
        """The state of that name, if it was made from the image of that id."""
        place = self._folder / name
        with contextlib.suppress(FileNotFoundError):
            return place if (place / "image").read_text() == image_id else None
        return None

    def store(self, name: str, image_id: str, upper: Path, save: Callable[[Path], None]) -> None:
        """`save` writes the processes, which ends them, to a folder; then nothing changes `upper` any more.

        Raises EngineError and keeps nothing.
        """
        making = self._folder / f"{name}{MAKING}"
        shutil.rmtree(making, ignore_errors=True)
        try:
            making.mkdir(mode=0o700)
            save(making / "images")
            copy(upper, making / "upper")
            (making / "image").write_text(image_id)
            self.forget(name)
            making.rename(self._folder / name)
        except BaseException as error:
            shutil.rmtree(making, ignore_errors=True)
            if isinstance(error, OSError):
                raise EngineError(f"the saved desktop could not be written: {error}") from error
            raise

    def forget(self, name: str) -> None:
        shutil.rmtree(self._folder / name, ignore_errors=True)

    def keep(self, names: Collection[str]) -> None:
        """Forget all others, and what was left of a saving that was broken off."""
        for place in self._folder.iterdir():
            if place.name.removesuffix(MAKING) not in names:
                self.forget(place.name)


def copy(source: Path, target: Path) -> None:
    """With owners, links and the overlay's own marks, which shutil leaves behind. Raises EngineError."""
    command = ["cp", "-a", "--reflink=auto", str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"what a desktop wrote could not be copied: {done.stderr.strip()[-300:]}")
