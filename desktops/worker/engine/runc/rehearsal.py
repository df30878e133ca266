"""What is saved and restored to see whether this machine can do that: one program of its own, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
import uuid
from pathlib import Path

from desktops.worker.engine.base import DeskSpec, EngineError

from .oci import RootImage

NAME = "rehearsal"
COMMAND = ["/bin/sleep", "60"]


def image(folder: Path) -> RootImage:
    """Laid out there. Raises EngineError."""
    program = shutil.which("sleep")
    if program is None:
        raise EngineError("this machine has no sleep")
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    root = folder / NAME
    for source, target in (
        (program, COMMAND[0]),
        *((name, name) for name in re.findall(r"(/\S+) \(", linked)),
    ):
        path = root / target.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, path)
    return RootImage(id=f"sha256:{NAME}", layers=(root,), environment=(), command=(), folder="/")


def spec(state: str = "") -> DeskSpec:
    return DeskSpec(computer=str(uuid.uuid4()), image=NAME, memory_mb=64, cpus=0.5, state=state)


def occasion(criu: Path) -> str:
    """What its outcome holds for: this start of the machine, with these programs. Raises OSError."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    changed = [str(Path(found).stat().st_mtime_ns) for found in (shutil.which("runc"), criu) if found]
    return " ".join((boot, str(criu), *changed))
