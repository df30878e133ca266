"""What can be read of a desktop: plain files of a bearable size, whatever stands in their place."""

from __future__ import annotations

import pytest

from desktops.worker.guest_client import Guest, GuestRefused

pytestmark = pytest.mark.desktop


@pytest.mark.parametrize(
    "make", ["mkfifo out", "ln -s /dev/zero out", "truncate -s 8G out", "ln -s /proc/kmsg out"]
)
def test_what_is_no_plain_file_of_bearable_size_is_refused_at_once(guest: Guest, make: str) -> None:
    guest.run(f"mkdir -p ~/scratch && cd ~/scratch && rm -f out && {make}")
    with pytest.raises((GuestRefused,)):
        guest.read_file("~/scratch/out")
    assert guest.ready()
