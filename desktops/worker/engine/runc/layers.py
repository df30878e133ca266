"""The images that desktops are made of: links to their layers, as the container engine keeps them."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from docker.errors import DockerException, ImageNotFound

from desktops.worker.engine.base import EngineError, ImageMissing
from desktops.worker.engine.docker import DockerEngine

from .going import Going
from .oci import RootImage

MAKING = "making-"


class Layers:
    """Under `folder`, by the image's id: links 0, 1, … to its layers, the topmost first."""

    def __init__(self, folder: Path, containers: DockerEngine, going: Going) -> None:
        self._folder, self._containers, self._going = folder, containers, going
        self._known: dict[str, RootImage] = {}
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def place(self, image: RootImage) -> Path:
        return self._folder / _name(image.id)

    def of(self, digest: str) -> RootImage:
        """The image of that recipe, its layers linked. One that was removed, or built anew, has lost its folders.

        Raises ImageMissing, EngineError.
        """
        with self._lock:
            known = self._known.get(digest)
            if known is None or not all(layer.is_dir() for layer in known.layers):
                known = self._known[digest] = self._ask(digest)
                self.link(known)
            return known

    def link(self, image: RootImage) -> None:
        """Links that are right stay: a desktop that is being mounted may be reading them."""
        place = self.place(image)
        there = [(place / str(number)) for number in range(len(image.layers))]
        if place.is_dir() and [link.readlink() for link in there if link.is_symlink()] == list(image.layers):
            return
        making = Path(tempfile.mkdtemp(prefix=MAKING, dir=self._folder))
        for number, layer in enumerate(image.layers):
            (making / str(number)).symlink_to(layer)
        shutil.rmtree(place, ignore_errors=True)
        making.rename(place)

    def drop(self, image: RootImage) -> None:
        self._going.take(self.place(image))

    @contextmanager
    def making(self) -> Iterator[Path]:
        """A folder for an image of our own making, for as long as it is needed."""
        with tempfile.TemporaryDirectory(prefix=MAKING, dir=self._folder) as folder:
            yield Path(folder)

    def clear(self) -> None:
        """What a worker that was killed had not finished."""
        with self._lock:
            for making in self._folder.glob(f"{MAKING}*"):
                self._going.take(making)

    def _ask(self, digest: str) -> RootImage:
        try:
            found = self._containers.client.api.inspect_image(self._containers.image_id(digest))
        except ImageNotFound as error:
            raise ImageMissing(f"the image {digest} is not on this machine: build the template") from error
        except (DockerException, OSError) as error:
            raise EngineError(f"the engine does not show its image: {error}") from error
        return _root_image(found)


def _root_image(found: dict[str, Any]) -> RootImage:
    data = (found.get("GraphDriver") or {}).get("Data") or {}
    layers = [data.get("UpperDir", ""), *str(data.get("LowerDir") or "").split(":")]
    paths = tuple(Path(layer) for layer in layers if layer)
    if not paths or not all(path.is_dir() for path in paths):
        raise EngineError("the engine does not keep its images as folders of this machine")
    config = found["Config"]
    return RootImage(
        id=f"sha256:{_name(str(found['Id']))}",
        layers=paths,
        environment=tuple(config.get("Env") or ()),
        command=(*(config.get("Entrypoint") or ()), *(config.get("Cmd") or ())),
        folder=config.get("WorkingDir") or "/",
    )


def _name(digest: str) -> str:
    return digest.removeprefix("sha256:")
