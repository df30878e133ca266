"""The conditions under which figures came about: how many processors, and how busy somebody else keeps them."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

QUIET_SHARE = 0.15  # of all processors together
LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Conditions:
    """`busy` is the share of all processors that others used in a second before the first figure, 0 to 1;
    `stolen` what the host took away in it."""

    processors: int
    memory_mib: int
    kernel: str
    load: float
    busy: float
    stolen: float

    @property
    def quiet(self) -> bool:
        return self.busy + self.stolen <= QUIET_SHARE

    def sentence(self) -> str:
        facts = (
            f"{self.processors} processors, {self.memory_mib} MiB, Linux {self.kernel}; load {self.load:.2f}, "
            f"others use {self.busy:.0%} of the processors"
        )
        stolen = f", the host takes {self.stolen:.0%}" if self.stolen >= 0.01 else ""
        if self.quiet:
            return f"{facts}{stolen}: quiet."
        return f"{facts}{stolen}: NOT quiet, times are worse than they would be; ratios suffer less."

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "quiet": self.quiet}


def look(seconds: float = LOOK_SECONDS) -> Conditions:
    """Watch the processors for that long while doing nothing."""
    before = _ticks()
    time.sleep(seconds)  # this is the measurement
    spent = [late - early for early, late in zip(before, _ticks(), strict=True)]
    total = sum(spent) or 1
    idle, stolen = spent[3] + spent[4], spent[7]
    return Conditions(
        processors=os.cpu_count() or 1,
        memory_mib=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        kernel=platform.release(),
        load=os.getloadavg()[0],
        busy=(total - idle - stolen) / total,
        stolen=stolen / total,
    )


def _ticks() -> list[int]:
    """user, nice, system, idle, iowait, irq, softirq, steal of all processors together."""
    first = Path("/proc/stat").read_text().splitlines()[0]
    return [int(value) for value in first.split()[1:9]]
