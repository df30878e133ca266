"""What is read from CRIU's images and logs."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from desktops.worker.engine.runc.criu import names_given, why_not_saved


def test_only_files_that_were_given_a_name_are_counted(tmp_path: Path) -> None:
    assert names_given(tmp_path) == 0
    entries = [b"\x08\x90\x02\x10\x01\x18\x01", b"\x08\xd8\x02\x10\x01\x18\x00", b"\x08\x05\x10\x96\x01"]
    content = b"".join(struct.pack("<I", len(entry)) + entry for entry in entries)
    (tmp_path / "remap-fpath.img").write_bytes(b"12345678" + content)
    assert names_given(tmp_path) == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Error (criu/sk-unix.c:351): unix: Unix socket 2582071 not found", "connected to from outside"),
        ("Error (criu/seize.c:335): zombie 312 (comm gimp) found while seizing", "has hold of gimp"),
        ("Error (criu/page-xfer.c:270): Unable to spice data: No space left on device", "No space left"),
        ("Error (criu/files.c:514): Can't lookup mount=25", "mount=25 (while its program soffice.bin was"),
    ],
)
def test_a_failed_save_is_told_in_words_that_say_what_helps(tmp_path: Path, line: str, words: str) -> None:
    log = tmp_path / "dump.log"
    assert why_not_saved(log) == ""
    begun = [
        "(00.01) Error (criu/util.c:1534): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted",
        "(00.02) Dumping task (pid: 1694 comm: soffice.bin)",
    ]
    log.write_text(
        "\n".join([*begun, f"(00.03) {line}", "(00.04) Error (criu/cr-dump.c:1975): Dumping FAILED."])
    )
    assert words in why_not_saved(log)
    log.write_text("\n".join(begun))
    assert why_not_saved(log) == ""
