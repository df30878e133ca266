"""A desktop's OCI configuration: the limits a container engine gives it, and a layout that can be saved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from desktops.worker.engine.base import COMPUTER_LABEL, OWNER_LABEL, DeskSpec
from desktops.worker.engine.docker import OPEN_FILES, PIDS

USER = 1000
HOSTNAME = "desk"
CPU_PERIOD = 100_000
MASKED = (
    "/proc/acpi",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/fs/selinux",
    "/sys/dev/block",
)
READ_ONLY = ("/proc/asound", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
# Without a network a name look-up must fail at once, and the desktop's own name must be found.
FILES = {
    "etc/hosts": f"127.0.0.1 localhost {HOSTNAME}\n::1 localhost\n",
    "etc/hostname": f"{HOSTNAME}\n",
    "etc/resolv.conf": "nameserver 127.0.0.1\n",
}


@dataclass(frozen=True)
class RootImage:
    """An image as runc needs it: its layers as folders of this machine, the topmost first."""

    id: str
    layers: tuple[Path, ...]
    environment: tuple[str, ...]
    command: tuple[str, ...]
    folder: str


def configuration(
    spec: DeskSpec,
    image: RootImage,
    *,
    owner: str,
    root: Path,
    cgroup: str,
    hook: Path,
    criu_settings: Path,
    seccomp: dict[str, Any],
    environment: list[str],
    command: list[str] | None = None,
) -> dict[str, Any]:
    """The document `config.json` of a bundle. `root` is the mounted root, `hook` brings its loopback up."""
    memory = spec.memory_mb << 20
    identity = [{"containerID": 0, "hostID": 0, "size": 65536}]
    return {
        "ociVersion": "1.0.2",
        "hostname": HOSTNAME,
        "root": {"path": str(root)},
        "process": {
            "user": {"uid": USER, "gid": USER, "additionalGids": [USER]},
            "args": command or list(image.command) or ["none"],  # a restored desktop starts nothing
            "env": [*image.environment, f"HOSTNAME={HOSTNAME}", "HOME=/home/user", *environment],
            "cwd": image.folder,
            "capabilities": {},
            "noNewPrivileges": True,
            "rlimits": [
                {"type": kind, "hard": OPEN_FILES, "soft": OPEN_FILES}
                for kind in ("RLIMIT_NOFILE", "RLIMIT_NPROC")
            ],
        },
        "mounts": _mounts(),
        "hooks": {"prestart": [{"path": str(hook)}]},
        "annotations": {
            **spec.labels,
            OWNER_LABEL: owner,
            COMPUTER_LABEL: spec.computer,
            "org.criu.config": str(criu_settings),
        },
        "linux": {
            "namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount", "user")],
            # An identity map: without it CRIU cannot save a desktop where the host lacks CAP_SYS_RESOURCE. It is no
            # security boundary; the desktop has no capability either way.
            "uidMappings": identity,
            "gidMappings": identity,
            "cgroupsPath": cgroup,
            "resources": {
                "devices": [{"allow": False, "access": "rwm"}],
                "memory": {"limit": memory, "swap": memory},
                "cpu": {"quota": int(spec.cpus * CPU_PERIOD), "period": CPU_PERIOD},
                "pids": {"limit": PIDS},
            },
            "seccomp": seccomp,
            "maskedPaths": list(MASKED),
            "readonlyPaths": list(READ_ONLY),
        },
    }


def _mounts() -> list[dict[str, Any]]:
    """Sockets are in memory, not on the overlay: there CRIU takes them for deleted ones."""
    closed = ["nosuid", "noexec", "nodev"]

    def memory(place: str, *options: str) -> dict[str, Any]:
        return {"destination": place, "type": "tmpfs", "source": "tmpfs", "options": list(options)}

    return [
        {"destination": "/proc", "type": "proc", "source": "proc", "options": closed},
        memory("/dev", "nosuid", "noexec", "strictatime", "mode=755", "size=65536k"),
        {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": [*closed, "ro"]},
        {
            "destination": "/dev/pts",
            "type": "devpts",
            "source": "devpts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"],
        },
        {"destination": "/dev/mqueue", "type": "mqueue", "source": "mqueue", "options": closed},
        memory("/dev/shm", *closed, "mode=1777", "size=256m"),  # noqa: S108 (inside the desktop)
        memory("/tmp", "nosuid", "nodev", "mode=1777", "size=1g"),  # noqa: S108
        memory("/run/user/1000", "nosuid", "nodev", "mode=0700", f"uid={USER}", f"gid={USER}", "size=64m"),
        memory("/run/deskyard", "nosuid", "nodev", "mode=0755", f"uid={USER}", f"gid={USER}", "size=64m"),
    ]
