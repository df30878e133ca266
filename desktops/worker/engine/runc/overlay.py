"""A writable root over an image's layers, mounted so that what watches its files can be saved too."""

from __future__ import annotations

import subprocess
from pathlib import Path

from desktops.worker.engine.base import EngineError

# Without these CRIU cannot name the files that a process watches.
OPTIONS = "index=on,nfs_export=on"


def mount(layers: Path, upper: Path, work: Path, root: Path) -> None:
    """`layers` holds links 0, 1, … to the image's layers, the topmost first. Raises EngineError."""
    # Relative to the folder: the options of a mount may not be longer than a page.
    lower = ":".join(sorted((path.name for path in layers.iterdir()), key=int))
    options = f"lowerdir={lower},upperdir={upper},workdir={work},{OPTIONS}"
    command = ["mount", "-t", "overlay", "deskyard", "-o", options, str(root)]
    done = subprocess.run(command, cwd=layers, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"a desktop's files could not be mounted: {done.stderr.strip()}")
