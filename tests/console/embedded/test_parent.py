"""make hands no SIGINT on that it alone was sent: what it runs has to notice by itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
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
def made(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    makefile = tmp_path / "Makefile"
    makefile.write_text(f"up:\n\t@PYTHONPATH={PROJECT} exec {sys.executable} {script}\n")
    # These tests may run below a make themselves, which is none of this one's business.
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    with subprocess.Popen(
        ["make", "--no-print-directory", "-f", str(makefile), "up"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        yield process


@pytest.mark.parametrize(("sent", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGKILL, "terminated")])
def test_what_make_alone_is_sent_ends_its_child_too(
    made: subprocess.Popen[str], sent: signal.Signals, word: str
) -> None:
    made.send_signal(sent)
    _, said = made.communicate(timeout=20)  # its pipe closes when the child has ended, too
    assert word in said
