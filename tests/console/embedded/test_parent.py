"""make hands no SIGINT on that it alone was sent: what it runs has to notice by itself."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from console.embedded.home import PROJECT

CHILD = """
import signal, sys
from console.embedded.parent import end_with_parent
end_with_parent()
signal.signal(signal.SIGINT, lambda *_: sys.exit("interrupted"))
signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
print("up", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def made(tmp_path: Path) -> subprocess.Popen[str]:
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    makefile = tmp_path / "Makefile"
    makefile.write_text(f"up:\n\t@PYTHONPATH={PROJECT} exec {sys.executable} {script}\n")
    process = subprocess.Popen(
        ["make", "-f", str(makefile), "up"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    return process


@pytest.mark.parametrize(("sent", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGKILL, "terminated")])
def test_what_make_alone_is_sent_ends_its_child_too(
    made: subprocess.Popen[str], sent: signal.Signals, word: str
) -> None:
    made.send_signal(sent)
    _, said = made.communicate(timeout=20)  # its pipe closes when the child has ended, too
    assert word in said
