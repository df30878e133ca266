"""The system calls a desktop may make: the container engines' own list, read for a process without capabilities."""

from __future__ import annotations

import errno
import json
import platform
from pathlib import Path
from typing import Any

from desktops.worker.engine.base import EngineError

# Debian's and Ubuntu's golang-github-containers-common, which Podman needs; the second is an operator's own.
PROFILES = (Path("/etc/containers/seccomp.json"), Path("/usr/share/containers/seccomp.json"))
ARCHITECTURES = {"x86_64": ("SCMP_ARCH_X86_64", "amd64"), "aarch64": ("SCMP_ARCH_AARCH64", "arm64")}

# Debian's list lets anybody make namespaces. With one of its own a program gets rights over much of the kernel.
NAMESPACES = (
    0x0002_0000  # CLONE_NEWNS
    | 0x0200_0000  # CLONE_NEWCGROUP
    | 0x0400_0000  # CLONE_NEWUTS
    | 0x0800_0000  # CLONE_NEWIPC
    | 0x1000_0000  # CLONE_NEWUSER
    | 0x2000_0000  # CLONE_NEWPID
    | 0x4000_0000  # CLONE_NEWNET
)
OURS: list[dict[str, Any]] = [
    {
        "names": ["clone", "unshare"],
        "action": "SCMP_ACT_ALLOW",
        "args": [{"index": 0, "value": NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
    },
    # Its flags are in memory, where no filter can look; a C library that hears ENOSYS takes clone.
    {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
    {"names": ["setns"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM},
]


def profile(machine: str = "") -> dict[str, Any]:
    """The `linux.seccomp` part of an OCI configuration. Raises EngineError where there is no list to read."""
    found = next((path for path in PROFILES if path.exists()), None)
    if found is None:
        raise EngineError(f"there is no list of allowed system calls at {PROFILES[1]}")
    return converted(json.loads(found.read_text()), machine or platform.machine())


def converted(listed: dict[str, Any], machine: str) -> dict[str, Any]:
    """From the container engines' format, whose entries say for which capabilities and processors they are."""
    if machine not in ARCHITECTURES:
        raise EngineError(f"the list of allowed system calls is not known for {machine}")
    native, name = ARCHITECTURES[machine]
    more: list[str] = next(
        (one["subArchitectures"] for one in listed["archMap"] if one["architecture"] == native), []
    )
    settled = {name for entry in OURS for name in entry["names"]}
    calls = [_call(entry, settled) for entry in listed["syscalls"] if _applies(entry, name)]
    made = {
        "defaultAction": listed["defaultAction"],
        "architectures": [native, *more],
        "syscalls": [call for call in calls if call["names"]] + OURS,
    }
    if listed.get("defaultErrnoRet") is not None:
        made["defaultErrnoRet"] = listed["defaultErrnoRet"]
    return made


def _applies(entry: dict[str, Any], name: str) -> bool:
    """For a process that has no capability at all: what needs one is out, what only the lack of one brings is in."""
    includes, excludes = entry.get("includes") or {}, entry.get("excludes") or {}
    if includes.get("caps") or name in (excludes.get("arches") or []):
        return False
    return not includes.get("arches") or name in includes["arches"]


def _call(entry: dict[str, Any], settled: set[str]) -> dict[str, Any]:
    names = [name for name in entry["names"] if name not in settled]
    made: dict[str, Any] = {"names": names, "action": entry["action"]}
    if entry.get("args"):
        made["args"] = entry["args"]
    if entry.get("errnoRet") is not None:
        made["errnoRet"] = entry["errnoRet"]
    return made
