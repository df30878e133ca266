"""A client of a container engine that speaks the engine's own version of the API."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Literal

import docker

ASKING = "1.41"  # what to ask in: this one call every engine answers in any version


def dial(url: str, seconds: float) -> docker.DockerClient:
    """`seconds`: how long each of its calls may take. Raises DockerException, or OSError when nobody listens there.

    The SDK's own way is to ask for `/version`, for which Podman looks through all packages of the machine: with few
    processors that takes longer than the start of a desktop. `/_ping` says it too.
    """
    with contextlib.closing(docker.DockerClient(base_url=url, timeout=seconds, version=ASKING)) as asking:
        spoken = _ping(asking).get("Api-Version")
    return docker.DockerClient(
        base_url=url, timeout=seconds, version=spoken
    )  # None: the SDK asks, and complains


def product(client: docker.DockerClient) -> tuple[Literal["docker", "podman"], str]:
    """podman or docker, and its version: what `/info` says too, after the same long search."""
    name, _, version = _ping(client).get("Server", "").partition(" ")[0].partition("/")
    return "podman" if name == "Libpod" else "docker", version


def _ping(client: docker.DockerClient) -> Mapping[str, str]:
    headers: Mapping[str, str] = client.api.get(
        f"{client.api.base_url}/_ping", timeout=client.api.timeout
    ).headers
    return headers
