"""Images made from desktops: what one has written, over the image it was made of, with the labels of a template."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
from docker.errors import DockerException, ImageNotFound

from .base import (
    COMPUTER_LABEL,
    IMAGE_REPOSITORY,
    OWNER_LABEL,
    RECIPE_LABEL,
    TEMPLATE_LABEL,
    EngineError,
    Image,
)
from .dial import dial

# Sockets, locks and names of one run of a desktop: each new one has its own, in memory or laid into it.
PASSING = (
    "dev",
    "etc/hostname",
    "etc/hosts",
    "etc/mtab",
    "etc/resolv.conf",
    "proc",
    "run",
    "sys",
    "tmp",
    "var/tmp",
)
COMMIT_SECONDS = 600  # of an image of some gigabytes, on a busy machine
OVERLAY_MARKS = ("trusted.overlay.opaque", "user.overlay.opaque")


def digest_of(base: str, written: Path) -> str:
    """SHA-256 over the base's digest and all that was written over it: names, owners, modes and contents.

    Files may go and change meanwhile unless the desktop is paused. Raises OSError.
    """
    whole = hashlib.sha256(f"{base}\n".encode())
    for path, name in _walk(written):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        whole.update(
            f"{name}\0{status.st_mode:o} {status.st_uid} {status.st_gid} {status.st_rdev}\0".encode()
        )
        if kind == stat.S_IFREG:
            with path.open("rb") as file:
                whole.update(hashlib.file_digest(file, "sha256").digest())
        elif kind == stat.S_IFLNK:
            whole.update(os.fsencode(path.readlink()))
        elif kind == stat.S_IFDIR:
            whole.update(",".join(sorted(set(os.listxattr(path)) & set(OVERLAY_MARKS))).encode())
    return f"sha256:{whole.hexdigest()}"


def _walk(written: Path) -> Iterator[tuple[Path, str]]:
    """Everything that lasts, each folder before what is in it, in one order. Links are not followed."""
    for root, folders, files in os.walk(written):
        here = Path(root).relative_to(written)
        for name in sorted([*folders, *files]):
            place = str(here / name)
            if place not in PASSING:
                yield Path(root, name), place
        folders[:] = sorted(name for name in folders if str(here / name) not in PASSING)


def lay_over(written: Path, target: Path) -> None:
    """Copy what lasts, with owners, links and the overlay's own marks. Raises EngineError."""
    excluded = [f"--exclude=./{name}" for name in PASSING]
    packing = ["tar", "-C", str(written), "--xattrs", "--xattrs-include=*", "--numeric-owner", *excluded]
    unpacking = ["tar", "-C", str(target), "--xattrs", "--xattrs-include=*", "--numeric-owner", "-xpf", "-"]
    with subprocess.Popen(
        [*packing, "-cf", "-", "."], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as source:
        done = subprocess.run(unpacking, stdin=source.stdout, capture_output=True, text=True, check=False)
    if source.returncode or done.returncode:
        raise EngineError(f"what the desktop wrote could not be copied: {done.stderr.strip()[-300:]}")


def commit(url: str, container: str, *, name: str, version: int, digest: str) -> Image:
    """The container's files as the image of that template version. Raises EngineError."""
    labels = {
        RECIPE_LABEL: digest.removeprefix("sha256:"),
        TEMPLATE_LABEL: f"{name}:{version}",
        # The container's own, which say whose desktop it is: an image is nobody's.
        OWNER_LABEL: "",
        COMPUTER_LABEL: "",
    }
    with (
        _words("the image could not be made"),
        contextlib.closing(dial(url, COMMIT_SECONDS)) as client,
    ):
        client.api.commit(
            container,
            repository=f"{IMAGE_REPOSITORY}/{name}",
            tag=str(version),
            pause=False,
            changes="\n".join(f'LABEL {label}="{value}"' for label, value in labels.items()),
        )
    return Image(name, version, digest)


def forget(client: docker.DockerClient, digest: str) -> None:
    """Without force: Podman would end the containers that use it. Raises EngineError."""
    with _words("the image could not be removed"):
        for found in client.api.images(filters={"label": f"{RECIPE_LABEL}={digest.removeprefix('sha256:')}"}):
            with contextlib.suppress(ImageNotFound):
                client.api.remove_image(found["Id"])


@contextlib.contextmanager
def unstarted(
    client: docker.DockerClient, image_id: str, labels: dict[str, str]
) -> Iterator[tuple[str, Path]]:
    """A container of that image and the folder of what it has written, which is nothing. It is gone afterwards."""
    with _words("no container could be made of the desktop's image"):
        config = {"Image": image_id.removeprefix("sha256:"), "Labels": labels}
        made = str(client.api.create_container_from_config(config)["Id"])
    try:
        with _words("the engine does not show its container"):
            found = client.api.inspect_container(made)
        yield made, upper_of(found)
    finally:
        with _words("the container that an image was made of could not be removed"):
            client.api.remove_container(made, force=True, v=True)


@contextlib.contextmanager
def paused(client: docker.DockerClient, container: str) -> Iterator[dict[str, Any]]:
    """The container as it is inspected, standing still."""
    with _words("the desktop could not be paused"):
        client.api.pause(container)
    try:
        with _words("the engine does not show its container"):
            found = client.api.inspect_container(container)
        yield found
    finally:
        with _words("the desktop does not go on"):
            client.api.unpause(container)


def upper_of(found: dict[str, Any]) -> Path:
    """Where the engine keeps what that container (as it is inspected) has written. Raises EngineError."""
    upper = str(((found.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir") or "")
    if not upper or not Path(upper).is_dir():
        raise EngineError("the engine does not keep its containers as folders of this machine")
    return Path(upper)


@contextlib.contextmanager
def _words(what: str) -> Iterator[None]:
    try:
        yield
    except (DockerException, OSError) as error:
        raise EngineError(f"{what}: {error}") from error
