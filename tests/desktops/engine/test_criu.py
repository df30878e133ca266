"""What is read from CRIU's images."""

from __future__ import annotations

import struct
from pathlib import Path

from desktops.worker.engine.runc.criu import names_given


def test_only_files_that_were_given_a_name_are_counted(tmp_path: Path) -> None:
    assert names_given(tmp_path) == 0
    entries = [b"\x08\x90\x02\x10\x01\x18\x01", b"\x08\xd8\x02\x10\x01\x18\x00", b"\x08\x05\x10\x96\x01"]
    content = b"".join(struct.pack("<I", len(entry)) + entry for entry in entries)
    (tmp_path / "remap-fpath.img").write_bytes(b"12345678" + content)
    assert names_given(tmp_path) == 2
