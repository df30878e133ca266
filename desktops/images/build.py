"""Build the template images: base → <name>-packages → <name>-system (files) → <name> (with the guest agent).

Each image carries the SHA-256 of what it was made of and is built again only when that changed. Neither
Django nor
a registry of images is needed; where no registry answers, the base comes from debootstrap.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import docker
from docker.errors import APIError, DockerException, ImageNotFound

from desktops.worker.engine.base import IMAGE_REPOSITORY as REPOSITORY
from desktops.worker.engine.base import RECIPE_LABEL, TEMPLATE_LABEL

HERE = Path(__file__).parent
GUEST = HERE.parent / "guest"
TEMPLATES = {"basic": "", "office": "basic"}  # and the template whose packages and files each one extends
VERSIONS = {"basic": 1, "office": 1}
SUITE = "bookworm"
REGISTRY_IMAGE = "debian:bookworm-slim"
MOUNT = "--mount=type=bind,source=apt,target=/run/apt "
QUIET_SECONDS = 5.0
APT_SETTINGS = ("Proxy", "CAInfo", "Check-Valid-Until", "Check-Date", "Verify-Peer")

Progress = Callable[[str], None]


class BuildFailed(Exception):
    """An image could not be built: the message says which step, why, and what to do."""


def packages(name: str) -> list[str]:
    """The Debian packages of a template, those of the template it stands on first."""
    found = []
    for template in family(name):
        lines = (HERE / template / "packages.txt").read_text().splitlines()
        found += [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return found


def recipe_digest(name: str) -> str:
    """SHA-256 of everything the image is made of; `name` may also be base, x-packages or x-system."""
    digest = hashlib.sha256(f"{name}:{VERSIONS[name]}\n".encode() if name in VERSIONS else b"")
    for path, data, mode in _inputs(name):
        digest.update(f"{path} {mode:o} {len(data)}\n".encode())
        digest.update(data)
    return digest.hexdigest()


class Installer(Protocol):
    """What takes a client's place where templates are laid onto the machine itself."""

    def install(self, name: str, progress: Progress) -> str: ...


def build(client: docker.DockerClient | Installer, name: str, progress: Progress) -> str:
    """Bring `localhost/deskyard/<name>:<version>` up to date; gives the digest of its recipe, sha256:…

    Raises BuildFailed.
    """
    if name not in TEMPLATES:
        raise BuildFailed(f"there is no template {name!r}: choose from {', '.join(TEMPLATES)}")
    if not isinstance(client, docker.DockerClient):
        return client.install(name, progress)
    system = _system(client, _parent(name), progress)
    _ensure(client, name, system, str(VERSIONS[name]), progress)
    return f"sha256:{recipe_digest(name)}"


def _system(client: docker.DockerClient, name: str, progress: Progress) -> str:
    if name == "base":
        return _base(client, progress)
    parent = _system(client, _parent(name), progress)
    return _ensure(client, name, parent, "latest", progress)


def _parent(name: str) -> str:
    """The image that one stands on: x → x-system → x-packages → y-packages → … → base."""
    template, _, stage = name.partition("-")
    if stage == "packages":
        below = TEMPLATES[template]
        return f"{below}-packages" if below else "base"
    return f"{template}-packages" if stage == "system" else f"{template}-system"


def family(name: str) -> list[str]:
    """A template and those it extends, the lowest first."""
    below = TEMPLATES[name]
    return [*(family(below) if below else []), name]


def _ensure(client: docker.DockerClient, name: str, parent: str, tag: str, progress: Progress) -> str:
    reference, digest = f"{REPOSITORY}/{name}:{tag}", recipe_digest(name)
    image = _find(client, reference)
    if image is not None and image.labels.get(RECIPE_LABEL) == digest:
        return str(image.id)
    progress(f"image {name}: building")
    started = time.monotonic()
    podman = _is_podman(client)
    context = _context(name, podman)
    try:
        stream = client.api.build(
            fileobj=context,
            custom_context=True,
            dockerfile="Containerfile",
            tag=reference,
            buildargs={"BASE": parent},
            labels={RECIPE_LABEL: digest} | ({TEMPLATE_LABEL: f"{name}:{tag}"} if name in TEMPLATES else {}),
            network_mode="host",  # so that the host's way to Debian's packages works in there too
            rm=True,
            forcerm=True,
            decode=True,
            timeout=3600,
        )
        _follow(stream, name, progress)
    except (DockerException, OSError) as error:
        raise BuildFailed(f"image {name}: the build broke: {error}") from error
    built = _find(client, reference)
    if built is None:
        raise BuildFailed(f"image {name}: the engine said it was built, and it is not there")
    progress(f"image {name}: built in {time.monotonic() - started:.0f} s")
    return str(built.id)


def _follow(stream: Iterator[dict[str, Any]], name: str, progress: Progress) -> None:
    """Pass the build's output on, a line at most each few seconds; steps always. Raises BuildFailed."""
    last, tail = 0.0, ""
    for event in stream:
        if "error" in event:
            raise BuildFailed(f"image {name}: {str(event['error']).strip()}\n{tail[-1500:]}")
        for line in str(event.get("stream", "")).splitlines():
            line = line.strip()
            if not line:
                continue
            tail = f"{tail}\n{line}"[-3000:]
            if line.upper().startswith("STEP ") or time.monotonic() - last > QUIET_SECONDS:
                progress(f"image {name}: {line[:160]}")
                last = time.monotonic()


def _base(client: docker.DockerClient, progress: Progress) -> str:
    """A minimal Debian: debootstrap where we may run it, else from a registry."""
    reference = f"{REPOSITORY}/base:latest"
    image = _find(client, reference)
    if image is not None:
        return str(image.id)
    reasons = []
    for make in (_base_by_debootstrap, _base_from_registry):
        try:
            make(client, reference, progress)
        except BuildFailed as error:
            reasons.append(str(error))
            continue
        made = _find(client, reference)
        if made is not None:
            return str(made.id)
    raise BuildFailed("image base: " + "; ".join(reasons))


def _base_by_debootstrap(client: docker.DockerClient, reference: str, progress: Progress) -> None:
    if os.geteuid() != 0:
        raise BuildFailed("debootstrap needs root")
    if not shutil.which("debootstrap"):
        raise BuildFailed("debootstrap is not installed (apt-get install debootstrap)")
    with tempfile.TemporaryDirectory(prefix="deskyard-base-") as folder:
        root = Path(folder) / "root"
        command = [
            "debootstrap",
            "--variant=minbase",
            "--include=ca-certificates",
            SUITE,
            str(root),
            *_mirror(),
        ]
        progress(f"image base: debootstrap {SUITE}")
        _run_with_progress(command, "image base", progress)
        # Debootstrap leaves the host's. A desktop without a network must hear "no" at once, not wait for an answer.
        (root / "etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
        archive = Path(folder) / "base.tar"
        subprocess.run(["tar", "-C", str(root), "-cf", str(archive), "."], check=True)
        progress("image base: importing")
        repository, _, tag = reference.rpartition(":")
        with archive.open("rb") as data:
            reply = client.api.import_image_from_data(data, repository=repository, tag=tag)
        if "error" in str(reply):
            raise BuildFailed(f"the import failed: {str(reply)[-300:]}")


def _base_from_registry(client: docker.DockerClient, reference: str, progress: Progress) -> None:
    progress(f"image base: pulling {REGISTRY_IMAGE}")
    repository, _, tag = reference.rpartition(":")
    try:
        client.images.pull(REGISTRY_IMAGE).tag(repository, tag)
    except (DockerException, OSError) as error:
        raise BuildFailed(f"no registry gives {REGISTRY_IMAGE}: {error}") from error


def _run_with_progress(command: list[str], name: str, progress: Progress) -> None:
    last, tail = 0.0, ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout or ():
            tail = f"{tail}{line}"[-1500:]
            if time.monotonic() - last > QUIET_SECONDS:
                progress(f"{name}: {line.strip()[:160]}")
                last = time.monotonic()
    if process.returncode:
        raise BuildFailed(f"{command[0]} failed with {process.returncode}: {tail.strip()}")


def _mirror() -> list[str]:
    """The Debian mirror this machine already uses; none, and debootstrap takes its own, where it uses none."""
    for path in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]:
        if not path.is_file():
            continue
        for line in path.read_text(errors="replace").splitlines():
            words = line.split()
            urls = [word for word in words if word.startswith(("http://", "https://"))]
            if words[:1] in (["deb"], ["URIs:"]) and urls and urls[0].rstrip("/").endswith("/debian"):
                return urls[:1]
    return []


def _inputs(name: str) -> Iterator[tuple[str, bytes, int]]:
    """(path in the build context, content, mode) of everything that an image is made of, in order."""
    if name == "base":
        yield "base", f"{SUITE} minbase ca-certificates".encode(), 0o644
        return
    yield "parent", recipe_digest(_parent(name)).encode(), 0o644
    template, _, stage = name.partition("-")
    if stage == "packages":
        yield "Containerfile", (HERE / "packages" / "Containerfile").read_bytes(), 0o644
        yield "install.sh", (HERE / "install.sh").read_bytes(), 0o755
        yield "packages.txt", (HERE / template / "packages.txt").read_bytes(), 0o644
    elif stage == "system":
        yield "Containerfile", (HERE / template / "Containerfile").read_bytes(), 0o644
        for member in family(template):
            yield from _tree(HERE / member, member)
    else:
        yield "Containerfile", (HERE / "guest" / "Containerfile").read_bytes(), 0o644
        yield from _tree(GUEST, "guest")


def _tree(folder: Path, prefix: str) -> Iterator[tuple[str, bytes, int]]:
    for path in sorted(folder.rglob("*")):
        if (
            path.is_file()
            and "__pycache__" not in path.parts
            and path.name not in ("Containerfile", "packages.txt")
        ):
            mode = 0o755 if path.suffix == ".sh" or path.parent.name == "bin" else 0o644
            yield f"{prefix}/{path.relative_to(folder)}", path.read_bytes(), mode


def _context(name: str, podman: bool) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, data, mode in _inputs(name):
            if path == "Containerfile" and not podman:
                data = _without_mount(data)
            _add(tar, path, data, mode)
        if name.endswith("-packages"):
            _add(tar, "apt/.keep", b"", 0o644)
            for path, data in _apt_settings():
                _add(tar, f"apt/{path}", data, 0o644)
        elif "-" not in name:
            with tempfile.TemporaryDirectory(prefix="deskyard-wheels-") as folder:
                for wheel in wheels(Path(folder)):
                    _add(tar, f"wheels/{wheel.name}", wheel.read_bytes(), 0o644)
    buffer.seek(0)
    return buffer


def _add(tar: tarfile.TarFile, path: str, data: bytes, mode: int) -> None:
    info = tarfile.TarInfo(path)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))


def _without_mount(containerfile: bytes) -> bytes:
    """Docker's classic builder knows no bind mounts: copy, use and remove in their place."""
    lines = []
    for line in containerfile.decode().splitlines():
        if MOUNT in line:
            lines.append("COPY apt /run/apt")
            line = line.replace(MOUNT, "") + " && rm -rf /run/apt"
        lines.append(line)
    return ("\n".join(lines) + "\n").encode()


def _apt_settings() -> Iterator[tuple[str, bytes]]:
    """The host's way to Debian's packages: sources of Debian itself, proxies, keys and certificate
    authorities.
    """
    etc = Path("/etc/apt")
    for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]:
        if path.is_file() and _is_debian(path.read_text(errors="replace")):
            yield str(path.relative_to(etc)), path.read_bytes()
    for path in sorted((etc / "apt.conf.d").glob("*")):
        text = path.read_text(errors="replace") if path.is_file() else ""
        if any(word in text for word in APT_SETTINGS):
            yield f"apt.conf.d/{path.name}", text.encode()
    for path in sorted(Path("/usr/local/share/ca-certificates").rglob("*.crt")):
        yield f"ca/{path.name}", path.read_bytes()


def _is_debian(text: str) -> bool:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    return any(f"{SUITE}" in line for line in lines) and "/debian" in "\n".join(lines)


def wheels(folder: Path) -> list[Path]:
    """The guest's Python packages as wheels, fetched and checked against the lock by this interpreter's
    pip.
    """
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--require-hashes", "--use-pep517"]
    command += ["--wheel-dir", str(folder), "-r", str(GUEST / "requirements.lock")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildFailed(f"pip could not fetch the guest's packages: {done.stderr.strip()[-800:]}")
    return sorted(folder.glob("*.whl"))


def _find(client: docker.DockerClient, reference: str) -> Any:
    try:
        return client.images.get(reference)
    except ImageNotFound:
        return None
    except APIError as error:
        if error.status_code == 404:
            return None
        raise


def _is_podman(client: docker.DockerClient) -> bool:
    components = client.version().get("Components") or []
    return any("podman" in str(part.get("Name", "")).lower() for part in components)


def main() -> int:
    names = sys.argv[1:] or list(TEMPLATES)
    client = docker.from_env(timeout=600)
    for name in names:
        try:
            image = build(client, name, lambda line: print(line, flush=True))
        except BuildFailed as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{name}: {image}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
