"""A film of the screen, by ffmpeg where it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

from .httpd import Refused

RATE = 15
END_SECONDS = 20.0


class Recording:
    """One recording at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._path = Path(tempfile.gettempdir(), "deskyard-recording.mp4")

    def start(self, width: int, height: int) -> None:
        with self._lock:
            if not shutil.which("ffmpeg"):
                raise Refused("this template has no ffmpeg, so it cannot record", 501)
            if self._process is not None and self._process.poll() is None:
                raise Refused("a recording is running already", 400)
            source = ["-f", "x11grab", "-draw_mouse", "1", "-video_size", f"{width}x{height}"]
            source += ["-framerate", str(RATE), "-i", os.environ.get("DISPLAY", ":0")]
            coding = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]
            self._process = subprocess.Popen(
                ["ffmpeg", "-y", "-loglevel", "error", *source, *coding, str(self._path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def end(self) -> bytes:
        """Stop, and give the film."""
        with self._lock:
            process, self._process = self._process, None
            if process is None:
                raise Refused("no recording is running", 400)
            try:
                process.communicate(b"q", timeout=END_SECONDS)  # ffmpeg finishes the file at a "q"
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            film = self._path.read_bytes()
            self._path.unlink()
            return film
