"""A client of a container engine that speaks the engine's own version of the API."""

from __future__ import annotations

import contextlib

import docker

ASKING = "1.41"  # what to ask in: this one call every engine answers in any version


def dial(url: str, seconds: float) -> docker.DockerClient:
    """`seconds`: how long each of its calls may take. Raises DockerException, or OSError when nobody listens there.

    The SDK's own way is to ask for `/version`, for which Podman looks through all packages of the machine: with few
    processors that takes longer than the start of a desktop. `/_ping` says it too.
    """
    with contextlib.closing(docker.DockerClient(base_url=url, timeout=seconds, version=ASKING)) as asking:
        spoken = asking.api.get(f"{asking.api.base_url}/_ping", timeout=seconds).headers.get("Api-Version")
    return docker.DockerClient(
        base_url=url, timeout=seconds, version=spoken
    )  # None: the SDK asks, and complains
